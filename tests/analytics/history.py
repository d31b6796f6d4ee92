"""Small histories for analytics: State documents reported at moments that the test chooses."""

import json
from typing import Any

from service.domain.envelope import NewEvent, Source, StoredEvent, data_digest
from tests.event_builders import MOMENT_US, SITE, event_id

OWNER = "0190aaaa-0000-7000-8000-0000000000aa"
PAGE = "0190aaaa-0000-7000-8000-0000000000bb"
US_PER_S = 1_000_000
_OUTSIDE = {"local", "status", "lastSeenAt", "name"}


class History:
    """Stored events in order; `at_s` counts seconds from the start."""

    def __init__(self) -> None:
        self.events: list[StoredEvent] = []

    def say(
        self, event_type: str, data: Any, *, at_s: float = 0, recorder: str = OWNER, job: str = "j1",
        causation_id: str | None = None,
    ) -> StoredEvent:  # fmt: skip
        position = len(self.events) + 1
        moment_us = MOMENT_US + round(at_s * US_PER_S)
        payload = json.dumps(data).encode()
        event = NewEvent(
            event_id(position), event_type, 1, f"job-{job}", moment_us, Source(recorder, position, SITE), payload,
            causation_id=causation_id,
        )  # fmt: skip
        stored = StoredEvent(position, position, moment_us, data_digest(payload, None), len(payload), event)
        self.events.append(stored)
        return stored

    def state(self, *, at_s: float = 0, recorder: str = OWNER, job: str = "j1", **document: Any) -> StoredEvent:
        known = {"id": job, "settings": {}, "state": {"phase": "running", "round": 1}} | document.pop("job_says", {})
        return self.say("state.reported", {"job": known, **document}, at_s=at_s, recorder=recorder, job=job)


def participant(identity: str, /, **says: Any) -> dict[str, Any]:
    """One participant of a State document; `local` and `status` as given, the rest goes into `execution`."""
    outside: dict[str, Any] = {key: says.pop(key) for key in _OUTSIDE & says.keys()}
    return {"id": identity, "status": "joined", **outside, "execution": says}


def checkpoint(number: int, **validation: Any) -> dict[str, Any]:
    """One checkpoint of a State document with validation metrics."""
    return {"round": number, "sha256": f"{number:064x}", "metrics": {"validation": validation}}
