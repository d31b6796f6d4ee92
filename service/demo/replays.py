"""Every checkpoint run again on the validation images: asked for, waited for and read over REST."""

import math
import time
from collections import Counter

import msgspec

from service.demo.lookback import Answer, JobFound
from service.demo.rest import Rest
from service.domain.facts import untag_number
from service.domain.identifiers import job_of_stream
from service.errors import Unavailable

JUDGED_WITHIN_S = 60
LOOK_EVERY_S = 0.1


class ReplaysFound(msgspec.Struct, frozen=True):
    """All verdicts together, as the record has them (docs/replay.md)."""

    replays: list[Answer]

    @property
    def verdicts(self) -> dict[str, int]:
        """How often each verdict was given."""
        return dict(Counter(replay["verdict"] for replay in self.replays))

    @property
    def engine(self) -> str | None:
        """The engine that ran them, or all that did; None when none did."""
        return _joined([replay["result"]["engine"] for replay in self.replays])

    @property
    def adapter(self) -> str | None:
        """The adapter that they ran on; None when no GPU was used."""
        adapters = [replay["result"]["adapter"] for replay in self.replays]
        return _joined([adapter["name"] for adapter in adapters if adapter is not None])

    def sentences(self) -> list[str]:
        """What came out: verdicts, engine and why it was chosen, labels, largest difference."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        where = f"engine {self.engine}, " + (f"adapter {self.adapter}" if self.adapter else "no GPU adapter")
        said = [f"Replays on the validation images: {counts} ({where})"]
        said += sorted({f"  {reason}" for r in self.replays if (reason := r["result"]["engine_reason"])})
        compared = [r for r in self.replays if r["result"]["labels"] is not None]
        if compared:
            equal, of = (sum(r["result"]["labels"][key] for r in compared) for key in ("equal", "of"))
            worst = max(compared, key=_difference)
            said.append(f"  same label as the float64 reference: {equal} of {of}")
            said.append(
                f"  largest logit difference {_difference(worst):.3g}, in round {worst['round']} of {_job(worst)}"
            )
        return said

    def shortcomings(self, checkpoints: int) -> list[str]:
        """Why the replays are not as they must be: a sentence for each checkpoint that did not reproduce."""
        reasons = [
            f"{_job(replay)} round {replay['round']}: {replay['verdict']}: {replay['result']['reason']}"
            for replay in self.replays
            if replay["verdict"] != "reproduced"
        ]
        for replay in self.replays:
            labels = replay["result"]["labels"]
            if labels is not None and labels["equal"] != labels["of"]:
                reasons.append(f"{_job(replay)} round {replay['round']}: {labels['equal']} of {labels['of']} labels")
        if len(self.replays) != checkpoints:
            reasons.append(f"{len(self.replays)} of {checkpoints} checkpoints were replayed")
        return reasons


def replay_all(rest: Rest, jobs: list[JobFound]) -> ReplaysFound:
    """Ask for a replay of every checkpoint, wait for the verdicts, and return them all.

    Raises Unavailable when they take too long.
    """
    asked = {
        rest.post(f"/v1/checkpoints/{checkpoint['sha256']}/replays", {})["id"]
        for job in jobs
        for checkpoint in job.checkpoints
    }
    give_up_s = time.monotonic() + JUDGED_WITHIN_S
    while time.monotonic() < give_up_s:
        found = [replay for job in jobs for replay in rest.rows(f"/v1/jobs/{job.id}/replays", "replays")]
        judged = [replay for replay in found if replay["id"] in asked and replay["state"] == "judged"]
        if len(judged) == len(asked):
            return ReplaysFound(judged)
        time.sleep(LOOK_EVERY_S)
    raise Unavailable(f"{len(asked)} replays were not judged within {JUDGED_WITHIN_S} s", retry_after_s=0)


def _joined(names: list[str | None]) -> str | None:
    """The different names in a row; None when there is none."""
    return ", ".join(sorted({name for name in names if name is not None})) or None


def _difference(replay: Answer) -> float:
    """The largest difference of an output from the reference's; a tagged infinity is one."""
    difference = untag_number(replay["result"]["max_abs_error"])
    return math.inf if difference is None else difference


def _job(replay: Answer) -> str:
    """The job that a replay belongs to; its stream where there is none."""
    return job_of_stream(replay["stream"]) or str(replay["stream"])
