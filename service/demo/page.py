"""A page of the demo: what it shows (one State document) and what it tells its recorder.

The documents have the shape of `docs/events.md`, so that one lens reads browsers and the demo alike. A page shows the
published state as the coordinator last sent it, and itself as it stands now; nothing is shown that was not measured.
"""

from typing import Any

import msgspec

from service.domain.times import Clock
from service.recording.client import Recorder

Document = dict[str, Any]
STAGES = ("waiting", "downloading", "training", "uploading")


class Execution:
    """How a participant computes, and the stage it is in, as its page reports it."""

    def __init__(self, fixed: Document, clock: Clock) -> None:
        self._clock = clock
        self._facts: Document = {
            **fixed, "stage": "waiting", "stageSeq": 1, "stageStartedAt": now_ms(clock), "stageDurationsMs": {},
            "assignment": None, "batch": None, "computeOnlySamplesPerSecond": None, "modelSha256": None,
        }  # fmt: skip

    def enter(self, stage: str, **facts: Any) -> None:
        """The next stage begins; the last one's duration is kept, and `facts` are what became known by it."""
        now = now_ms(self._clock)
        durations = {**self._facts["stageDurationsMs"], self._facts["stage"]: now - self._facts["stageStartedAt"]}
        self._facts |= {
            "stage": stage, "stageSeq": self._facts["stageSeq"] + 1, "stageStartedAt": now,
            "stageDurationsMs": durations, **facts,
        }  # fmt: skip

    def note(self, **facts: Any) -> None:
        """Facts that became known in the middle of a stage."""
        self._facts |= facts

    @property
    def facts(self) -> Document:
        """The facts as they stand now."""
        return dict(self._facts)


class Page:
    """What one process shows of one job. `participant` is the page's own, None for the owner's page."""

    def __init__(self, recorder: Recorder, clock: Clock, participant: str | None, preferences: Document) -> None:
        self.recorder = recorder
        self.view: Document = {}
        self.transfer: Document | None = None
        self.storage: Document | None = None
        self.execution: Execution | None = None
        self._clock = clock
        self._participant = participant
        self._preferences = preferences

    def report(self) -> None:
        """Record a snapshot: the whole document."""
        self.recorder.report_state(self.document())

    def document(self) -> Document:
        """The State document of this page, now."""
        own = None if self.execution is None else self.execution.facts
        job = self.view.get("job")
        return {
            "role": "owner" if self._participant is None else "guest",
            "visible": True, "preferences": self._preferences, "storage": self.storage, "savedJobs": [],
            "invitations": [], "transfer": self.transfer,
            "job": None if job is None else {**job, "localWorkers": 0 if own is None else own["workers"]},
            "participants": [self._listed(word, own) for word in self.view.get("participants", [])],
            "checkpoints": self.view.get("checkpoints", []),
            "execution": own,
        }  # fmt: skip

    def _listed(self, word: Document, own: Document | None) -> Document:
        """One entry of the list; the own one shows what this page knows better than the coordinator."""
        if word["id"] != self._participant or own is None:
            return {**word, "local": False}
        return {**word, "local": True, "lastSeenAt": now_ms(self._clock), "stale": False, "execution": own}


class MetricLabel(msgspec.Struct, frozen=True):
    """How the selected model names a metric, and which direction is better."""

    key: str
    label: str
    direction: str


def now_ms(clock: Clock) -> int:
    """The clock's moment in ms, as pages write moments."""
    return clock() // 1000
