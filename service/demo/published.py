"""The published state of a job as the coordinator keeps it: the job, its participants, its checkpoints.

This is the training API's own side of the demo: `create`, `start` and `finish` check the phase and refuse what does not
fit, whatever a caller believes. Every page shows copies of this state.
"""

from typing import Any

import msgspec

from service.demo.page import Document, MetricLabel, now_ms
from service.demo.rounds import PageRefusal
from service.domain.times import Clock

WRONG_STATE = "wrong_state"


class JobWords(msgspec.Struct, frozen=True):
    """What is fixed about a job from its creation on."""

    id: str
    rounds: int
    settings: Document
    execution_files: Document
    metric_labels: list[MetricLabel]
    initial_sha256: str


class Published:
    """State of one job and the rules that change it."""

    def __init__(self, words: JobWords, clock: Clock) -> None:
        self._clock = clock
        self._stale_after_ms: int = words.settings["staleAfterMs"]
        self._participants: dict[str, Document] = {}
        self._checkpoints: list[Document] = []
        self._job: Document = {
            "id": words.id, "createdAt": now_ms(clock), "hasModuleFile": True, "initialSha256": words.initial_sha256,
            "progress": None, "settings": words.settings, "executionFiles": words.execution_files,
            "metricLabels": msgspec.to_builtins(words.metric_labels),
            "state": {"phase": "created", "round": 0, "completedPasses": 0, "startedAt": None, "finishedAt": None},
        }  # fmt: skip
        self._rounds = words.rounds

    @property
    def phase(self) -> str:
        """created, running or finished."""
        phase: str = self._job["state"]["phase"]
        return phase

    @property
    def joined(self) -> list[str]:
        """Participants that take part now, in the order of their ids."""
        return sorted(key for key, word in self._participants.items() if word["status"] == "joined")

    def start(self) -> None:
        """Begin training. Raises PageRefusal unless the job was just created."""
        if self.phase != "created":
            raise PageRefusal(WRONG_STATE, f"job {self._job['id']} is {self.phase}; start needs a job that is created")
        self._job["state"] |= {"phase": "running", "startedAt": now_ms(self._clock)}
        self._show_progress()

    def finish(self) -> None:
        """The last round is over."""
        self._job["state"] |= {"phase": "finished", "finishedAt": now_ms(self._clock)}

    def join(self, participant: str, name: str) -> None:
        """The participant is in the job from now on."""
        self._participants[participant] = {
            "id": participant, "name": name, "status": "joined", "lastSeenAt": now_ms(self._clock), "stale": False,
            "execution": None,
        }  # fmt: skip

    def leave(self, participant: str) -> None:
        """The participant left; it stays listed."""
        self._participants[participant]["status"] = "left"

    def heard(self, participant: str, execution: Document | None = None) -> None:
        """Something came from this participant just now."""
        if participant in self._participants:
            word = self._participants[participant]
            word["lastSeenAt"] = now_ms(self._clock)
            word["execution"] = word["execution"] if execution is None else execution

    def silent_ms(self, participant: str) -> int:
        """For how long nothing came from this participant."""
        last: int = self._participants[participant]["lastSeenAt"]
        return now_ms(self._clock) - last

    def add_checkpoint(self, checkpoint: Document) -> None:
        """A round gave this checkpoint."""
        self._checkpoints.append({**checkpoint, "createdAt": now_ms(self._clock)})
        self._job["state"] |= {"round": checkpoint["round"], "completedPasses": checkpoint["round"]}
        self._show_progress()

    def view(self) -> Document:
        """What every page shows, with the coordinator's own judgement of who is stale."""
        return {
            "job": self._job | {"state": dict(self._job["state"])},
            "participants": [self._with_staleness(word) for word in self._participants.values()],
            "checkpoints": list(self._checkpoints),
        }

    def _with_staleness(self, word: Document) -> dict[str, Any]:
        is_silent = self.silent_ms(word["id"]) >= self._stale_after_ms
        return {**word, "stale": word["status"] == "joined" and is_silent}

    def _show_progress(self) -> None:
        self._job["progress"] = {"round": self._job["state"]["round"], "of": self._rounds}
