"""Events made by hand, in order, with a clock that the test sets: what a store would hand to the views."""

from typing import Any

import msgspec

from service.domain.envelope import NewEvent, Source, StoredEvent, data_digest

START_US = 1_796_000_000_000_000
S = 1_000_000


class Tape:
    """A list of stored events; `at_s` is the server's time in seconds since the tape began."""

    def __init__(self) -> None:
        self.events: list[StoredEvent] = []
        self._seqs: dict[str, int] = {}
        self._stream_positions: dict[str, int] = {}

    def add(self, kind: str, data: Any, *, at_s: float = 0, recorder: str = "rec-owner", stream: str = "job-j1",
            site: str = "https://lab.example", seq: int | None = None, observed_us: int | None = None,
            causation_id: str | None = None) -> StoredEvent:  # fmt: skip
        """Store one event at the end; `seq` continues its recorder's unless it is given."""
        self._seqs[recorder] = seq if seq is not None else self._seqs.get(recorder, 0) + 1
        self._stream_positions[stream] = self._stream_positions.get(stream, 0) + 1
        position, now_us = len(self.events) + 1, START_US + int(at_s * S)
        body = data if isinstance(data, bytes) else msgspec.json.encode(data)
        event = NewEvent(
            f"00000000-0000-7000-8000-{position:012d}", kind, 1, stream, now_us if observed_us is None else observed_us,
            Source(recorder, self._seqs[recorder], site), body, causation_id=causation_id,
        )  # fmt: skip
        stored = StoredEvent(
            position, self._stream_positions[stream], now_us, data_digest(body, None), len(body), event
        )
        self.events.append(stored)
        return stored

    def state(self, document: dict[str, Any], **rest: Any) -> StoredEvent:
        return self.add("state.reported", document, **rest)

    def read(
        self, after: int = 0, limit: int = 1000, up_to: int | None = None, stream: str | None = None
    ) -> list[StoredEvent]:  # fmt: skip
        """As `EventStore.read` would answer."""
        found = [
            e
            for e in self.events[after : len(self.events) if up_to is None else up_to]
            if stream is None or e.event.stream == stream
        ]
        return found[:limit]


def participant(name: str, *, local: bool = False, seen_ms: int | None = 1000, **execution: Any) -> dict[str, Any]:
    """One entry of a State document's participants."""
    return {"id": name, "name": name.upper(), "local": local, "status": "joined", "lastSeenAt": seen_ms,
            "execution": {"backend": "webgpu", "gpuAvailable": True, "stage": "training", **execution}}  # fmt: skip


def state(
    *participants: dict[str, Any],
    role: str = "owner",
    phase: str = "running",
    round_number: int = 1,
    settings: dict[str, Any] | None = None,
    checkpoints: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A State document with the fields that most tests look at."""
    return {
        "role": role,
        "preferences": {"backend": "auto", "maxLocalWorkers": 2, "gpuMemoryBudgetMiB": 512},
        "job": {
            "id": "j1",
            "settings": {"epochs": 12, "aggregation": "FedAvg"} if settings is None else settings,
            "metricLabels": [{"key": "loss", "direction": "min"}, {"key": "accuracy", "direction": "max"}],
            "state": {"phase": phase, "round": round_number},
        },
        "participants": list(participants),
        "checkpoints": checkpoints or [],
        "execution": None,
    }  # fmt: skip
