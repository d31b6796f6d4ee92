"""Every checkpoint run again on the validation images: asked for, waited for and read over REST."""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from service.demo.lookback import Answer, JobFound
from service.demo.rest import Rest
from service.errors import Unavailable

JUDGED_WITHIN_S = 60
LOOK_EVERY_S = 0.1


class ReplaysFound(msgspec.Struct, frozen=True):
    """All verdicts together. `verdicts` counts them by name."""

    replays: list[Answer]

    @property
    def verdicts(self) -> dict[str, int]:
        """How often each verdict was given."""
        return dict(Counter(replay["verdict"] for replay in self.replays))

    @property
    def engine(self) -> str | None:
        """The engine that ran them; None when nothing ran."""
        return _only(replay["result"].get("engine") for replay in self.replays)

    @property
    def adapter(self) -> Any:
        """The adapter's name; None when no GPU was used."""
        return _only((replay["result"].get("adapter") or {}).get("name") for replay in self.replays)

    def sentences(self) -> list[str]:
        """What to say about them."""
        return [f"Replays: {self.verdicts} on {self.engine}, adapter {self.adapter}"]

    def shortcomings(self, checkpoints: int) -> list[str]:
        """Why the replays are not as they must be: one sentence for each checkpoint that did not reproduce."""
        wrong = [replay for replay in self.replays if replay["verdict"] != "reproduced"]
        reasons = [
            f"replay of {r['checkpoint_sha256']} (round {r['round']}): {r['verdict']}: {r['result']}" for r in wrong
        ]
        if len(self.replays) != checkpoints:
            reasons.append(f"{len(self.replays)} of {checkpoints} checkpoints were replayed")
        return reasons


def replay_all(rest: Rest, jobs: list[JobFound]) -> ReplaysFound:
    """Ask for a replay of every checkpoint, wait for the verdicts, and return them all."""
    asked = [
        rest.post(f"/v1/checkpoints/{checkpoint['sha256']}/replays", {})["id"]
        for job in jobs
        for checkpoint in job.checkpoints
    ]
    give_up_s = time.monotonic() + JUDGED_WITHIN_S
    while time.monotonic() < give_up_s:
        found = [replay for job in jobs for replay in rest.rows(f"/v1/jobs/{job.id}/replays", "replays")]
        judged = [replay for replay in found if replay["id"] in asked and replay["state"] == "judged"]
        if len(judged) == len(asked):
            return ReplaysFound(judged)
        time.sleep(LOOK_EVERY_S)
    raise Unavailable(f"{len(asked)} replays were not judged within {JUDGED_WITHIN_S} s", retry_after_s=0)


def _only(values: Iterable[Any]) -> Any:
    """The one value that all have; several are joined; None when there is none."""
    different = sorted({str(value) for value in values if value is not None})
    return ", ".join(different) or None
