"""The checkpoint view, reading side: reported and archived joined by sha256, then latest and best.

Rules. Of several words about one checkpoint the owner's page counts, then the latest. `latest` is the highest round (of
equal rounds the one heard of last); `latest_archived` the one whose bytes arrived last; `latest_usable` the highest
round whose archived bytes are well-formed and finite. `best` needs a direction, looks at one split only, leaves out
non-finite values, and of equal values takes the lowest round, then the earliest position.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from service.domain import lens
from service.domain.facts import Fact
from service.domain.readers import Word
from service.domain.times import format_us
from service.projections.projection import JobAsOf

_REPORTS = """SELECT sha256, round, segment, is_late, is_owner, recorder, position, recorded_us, word
 FROM checkpoint_reports WHERE stream = ? AND site = ? AND position <= ? ORDER BY position, rowid"""
_ARCHIVED = """SELECT a.position, a.sha256, a.size_bytes, a.round, a.media_format, a.inspection, a.recorded_us
 FROM artifacts a WHERE a.role = 'checkpoint' AND a.position <= ? AND (a.stream = ? OR a.sha256 IN
 (SELECT sha256 FROM checkpoint_reports WHERE stream = ? AND site = ? AND position <= ?)) ORDER BY a.position"""
_JOBS_OF = """SELECT DISTINCT stream, site FROM checkpoint_reports WHERE sha256 = ? AND position <= ?
 UNION SELECT stream, '' FROM artifacts WHERE sha256 = ? AND role = 'checkpoint' AND position <= ?"""


class Report(NamedTuple):
    """One page's word about a checkpoint."""

    segment: int
    is_late: bool
    is_owner: bool
    recorder: str
    position: int
    recorded_us: int
    word: Word


class Kept(NamedTuple):
    """What is known of the archived bytes. `arrivals` are the positions of every time they were archived."""

    arrivals: tuple[int, ...]
    size_bytes: int
    round: int | None
    media_format: str | None
    inspection: dict[str, Any] | None


class Checkpoint(NamedTuple):
    """One checkpoint as of a position. `round` is the reported one, else the archived one."""

    sha256: str | None
    round: int | None
    first_position: int
    reports: tuple[Report, ...]
    kept: Kept | None

    @property
    def report(self) -> Report | None:
        """The word that counts: the owner's page, then the latest."""
        return max(self.reports, key=lambda report: (report.is_owner, report.position), default=None)

    @property
    def is_usable(self) -> bool:
        """Whether its archived bytes are well-formed and hold no NaN or infinity."""
        return self.kept is not None and is_sound(self.kept.inspection)


def is_sound(inspection: dict[str, Any] | None) -> bool:
    """Whether an inspection found a well-formed checkpoint of finite numbers."""
    if inspection is None or inspection.get("well_formed") is not True:
        return False
    return all(inspection.get(kind) == 0 for kind in ("nan", "positive_infinity", "negative_infinity"))


def checkpoints_as_of(connection: sqlite3.Connection, job: JobAsOf) -> list[Checkpoint]:
    """Every checkpoint of a job known at a position, by round, then by when it was first heard of."""
    reports: dict[tuple[str, int | None], list[Report]] = {}
    for sha256, round_number, segment, is_late, is_owner, recorder, position, moment, word in connection.execute(
        _REPORTS, job
    ):
        report = Report(segment, bool(is_late), bool(is_owner), recorder, position, moment, msgspec.json.decode(word))
        reports.setdefault((sha256, None) if sha256 else ("", round_number), []).append(report)
    kept = _archived(connection, job)
    keys = [*reports, *((sha256, None) for sha256 in kept if (sha256, None) not in reports)]
    found = [_joined(sha256, reports.get((sha256, no_digest), []), kept.get(sha256)) for sha256, no_digest in keys]
    return sorted(found, key=_order)


def _archived(connection: sqlite3.Connection, job: JobAsOf) -> dict[str, Kept]:
    found: dict[str, Kept] = {}
    parameters = (job.up_to, job.stream, *job)
    for position, sha256, size, round_number, media_format, inspection, _ in connection.execute(_ARCHIVED, parameters):
        before = found.get(sha256)
        arrivals = (*before.arrivals, position) if before else (position,)
        read = msgspec.json.decode(inspection) if inspection else None
        told = round_number if round_number is not None else (read or {}).get("round")
        found[sha256] = Kept(arrivals, size, told, media_format, read)
    return found


def _joined(sha256: str, reports: list[Report], kept: Kept | None) -> Checkpoint:
    positions = [report.position for report in reports] + list(kept.arrivals if kept else ())
    unplaced = Checkpoint(sha256 or None, None, min(positions), tuple(reports), kept)
    reported = lens.round_of(unplaced.report.word) if unplaced.report else None
    return unplaced._replace(round=reported if reported is not None else kept.round if kept else None)


def _order(checkpoint: Checkpoint) -> tuple[bool, int, int]:
    return checkpoint.round is None, checkpoint.round or 0, checkpoint.first_position


def latest(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The highest round; of equal ones that heard of last. One without a round is never the latest."""
    placed = [checkpoint for checkpoint in checkpoints if checkpoint.round is not None]
    return max(placed, key=lambda checkpoint: (checkpoint.round, checkpoint.first_position), default=None)


def latest_archived(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The one whose bytes arrived last, whatever its round."""
    kept = [checkpoint for checkpoint in checkpoints if checkpoint.kept is not None]
    return max(kept, key=lambda checkpoint: checkpoint.kept.arrivals[-1] if checkpoint.kept else 0, default=None)


def latest_usable(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The highest round that can be run again: archived, well-formed, finite."""
    return latest(checkpoint for checkpoint in checkpoints if checkpoint.is_usable)


class Best(NamedTuple):
    """The best checkpoint by one metric, or none and why. `had_it` of `of` checkpoints had a finite value."""

    checkpoint: Checkpoint | None
    value: float | None
    had_it: int
    of: int

    @property
    def reason(self) -> str | None:
        """Code of why there is no best one."""
        return None if self.checkpoint else "no_value"


def best(checkpoints: list[Checkpoint], metric: str, split: str, direction: str) -> Best:
    """The best checkpoint by a metric of one split; direction is `min` or `max`. Never falls back to anything."""
    scored = [(value, c) for c in checkpoints if (value := metric_value(c, metric, split)) is not None]
    if not scored:
        return Best(None, None, 0, len(checkpoints))
    sign = 1 if direction == "min" else -1
    value, winner = min(scored, key=lambda pair: (sign * pair[0], *_order(pair[1])))
    return Best(winner, value, len(scored), len(checkpoints))


def metric_value(checkpoint: Checkpoint, metric: str, split: str) -> float | None:
    """The finite value of a metric, as the word that counts reports it."""
    report = checkpoint.report
    for found in lens.metric_values(report.word) if report else ():
        if found.split == split and found.key == metric:
            return found.value
    return None


def checkpoint_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """One checkpoint as an answer: what was reported, with positions, beside what was archived."""
    report, kept = checkpoint.report, checkpoint.kept
    position = report.position if report else None
    facts = lens.read_all(report.word if report else None, lens.CHECKPOINT_FACTS, position)
    del facts["sha256"], facts["round"]
    metrics: dict[str, dict[str, Fact]] = {"training": {}, "validation": {}}
    for found in lens.metric_values(report.word) if report else ():
        value = {"non_finite": found.tag} if found.tag else found.value
        metrics[found.split][found.key] = Fact(value, found.reason, position)
    return {
        "sha256": checkpoint.sha256,
        "round": checkpoint.round,
        "segment": report.segment if report else None,
        "position": checkpoint.first_position,
        "is_late": report.is_late if report else False,
        "is_usable": checkpoint.is_usable,
        "reported": facts,
        "metrics": metrics,
        "archived": None if kept is None else {
            "positions": list(kept.arrivals),
            "size_bytes": kept.size_bytes,
            "round": kept.round,
            "media_format": kept.media_format,
            "inspection": kept.inspection,
        },
        "reports": [
            {"position": r.position, "recorder": r.recorder, "is_owner": r.is_owner,
             "recorded_at": format_us(r.recorded_us)} for r in checkpoint.reports
        ],
    }  # fmt: skip


def jobs_of_checkpoint(connection: sqlite3.Connection, sha256: str, up_to: int) -> list[tuple[str, str]]:
    """(stream, site) of each job that reported or archived this checkpoint; site is empty for archived only."""
    return list(connection.execute(_JOBS_OF, (sha256, up_to, sha256, up_to)))
