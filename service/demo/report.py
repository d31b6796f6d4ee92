"""How the demo tells what it found: a table on screen, and `demo-summary.json` for programs."""

import re
from pathlib import Path
from typing import Any

import msgspec
from rich.markup import escape

from service.cli.output import answers, print_table
from service.demo.lookback import KINDS, Incident, JobFound, Question
from service.demo.replays import ReplaysFound

SUMMARY_NAME = "demo-summary.json"
SECONDS_MAX = 60.0
ACCURACY_MIN = 0.85
CHECKPOINTS_MIN = 36
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z", re.ASCII)


class LogFound(msgspec.Struct, frozen=True):
    """What verification said: how many leaves, their root, and every finding as a sentence."""

    size: int
    root: str
    verified: bool
    sentences: list[str] = []


class Found(msgspec.Struct, frozen=True):
    """Everything that the demo found out, and how long each part took (seconds)."""

    jobs: list[JobFound]
    replays: ReplaysFound
    log: LogFound
    question: Question
    parts: dict[str, float]

    @property
    def seconds(self) -> float:
        """All parts together."""
        return round(sum(self.parts.values()), 3)

    @property
    def incidents(self) -> list[Incident]:
        """The incidents of all jobs, in the order in which they were recorded."""
        return sorted((i for job in self.jobs for i in job.incidents), key=lambda incident: incident.position)


def shortcomings(found: Found) -> list[str]:
    """Why the demo failed, one sentence for each reason; empty when everything that must show shows."""
    missing = [kind for kind in KINDS if kind not in {incident.kind for incident in found.incidents}]
    checkpoints = sum(len(job.checkpoints) for job in found.jobs)
    reasons = [f"no incident of kind {kind} was found in the record" for kind in missing]
    if checkpoints < CHECKPOINTS_MIN:
        reasons.append(f"{checkpoints} checkpoints were found, wanted at least {CHECKPOINTS_MIN}")
    reasons += found.replays.shortcomings(checkpoints)
    reasons += [f"the log is not verified: {sentence}" for sentence in found.log.sentences]
    if not found.log.verified and not found.log.sentences:
        reasons.append("the log is not verified")
    for job in found.jobs:
        if job.accuracy is None or job.accuracy < ACCURACY_MIN:
            reasons.append(f"{job.id} ended with accuracy {job.accuracy}, wanted at least {ACCURACY_MIN}")
    if found.seconds > SECONDS_MAX:
        reasons.append(f"it took {found.seconds:.1f} s, wanted at most {SECONDS_MAX:g} s")
    return reasons


def summary(found: Found) -> dict[str, Any]:
    """The document of `demo-summary.json`."""
    replays = found.replays
    return {
        "seconds": found.seconds,
        "parts": found.parts,
        "events": found.log.size,
        "jobs": len(found.jobs),
        "checkpoints": sum(len(job.checkpoints) for job in found.jobs),
        "participants": len({participant for job in found.jobs for participant in job.participants}),
        "replays": {
            "reproduced": replays.verdicts.get("reproduced", 0),
            "deviates": replays.verdicts.get("deviates", 0),
            "cannot_run": replays.verdicts.get("cannot-run", 0),
            "engine": replays.engine,
            "adapter": replays.adapter,
        },
        "log": {"size": found.log.size, "root": found.log.root, "verified": found.log.verified},
        "incidents": msgspec.to_builtins(found.incidents),
        "accuracy": {job.id: job.accuracy for job in found.jobs},
    }


def write_summary(found: Found, folder: Path) -> Path:
    """Write `demo-summary.json` into the data folder; its path."""
    path = folder / SUMMARY_NAME
    path.write_bytes(msgspec.json.format(msgspec.json.encode(summary(found)), indent=2) + b"\n")
    return path


def print_found(found: Found) -> None:
    """The tables, in the order in which the questions were asked."""
    _print_jobs(found)
    rows = [(i.job, i.round, i.kind, i.position, i.sentence) for i in found.incidents]
    print_table("Who failed and when, from the record", ("job", "round", "incident", "position", "what"), rows)
    cells = [[_short(value) for value in row] for row in found.question.rows]
    print_table(f"DuckDB, {found.question.name}: {found.question.words}", found.question.columns, cells)
    for sentence in found.replays.sentences():
        answers.print(escape(sentence))
    verdict = "verified" if found.log.verified else "NOT verified"
    answers.print(f"Log: {verdict}, {found.log.size} leaves, root {found.log.root}")
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.parts.items())
    answers.print(f"Took {found.seconds:.1f} s: {parts}")


def _short(value: Any) -> Any:
    """A cell that fits: two decimals, and of a moment its time of day."""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, str) and MOMENT.fullmatch(value):
        return value[11:23]
    return value


def _print_jobs(found: Found) -> None:
    rows = []
    for job in found.jobs:
        best = "\n".join(f"{one.metric} ({one.direction}) {one.value:.4f} round {one.round}" for one in job.best)
        history = " ".join("-" if value is None else f"{value:.2f}" for value in job.history)
        rows.append((job.id, job.aggregation, job.phase, len(job.participants), len(job.checkpoints), history, best))
    columns = ("job", "aggregation", "phase", "participants", "checkpoints", "accuracy by round", "best")
    print_table("Jobs, from the record", columns, rows)
