"""What the service itself has to say, as events: `artifact.archived`, `replay.judged` and the like.

One `ServiceRun` is the recorder of one run of the service: its events have its uuid as `source.recorder` and count
`seq` from 1. A number is used up even when the store then refuses the event: that gap is the trace of the refusal.
"""

import itertools
import uuid
from typing import Any

import msgspec

from service.domain.canonical import canonical_json
from service.domain.envelope import NewEvent, Source
from service.domain.identifiers import RandomBytes, uuid7
from service.domain.times import Clock

SERVICE_SITE = "retrace"
_NAMESPACE = uuid.UUID("5d1c6ea2-6f0c-5f0e-9c53-0d5c7c7b0a41")


class ServiceRun:
    """The service as a recorder. May be used from any thread."""

    def __init__(self, clock: Clock, random_bytes: RandomBytes) -> None:
        self.clock = clock
        self.random_bytes = random_bytes
        self.recorder = uuid7(clock(), random_bytes)
        self._seq = itertools.count(1)

    def event(
        self, event_type: str, stream: str, data: msgspec.Struct | dict[str, Any], *,
        event_id: str | None = None, causation_id: str | None = None,
    ) -> NewEvent:  # fmt: skip
        """A new event, now. Non-finite numbers in `data` must be tagged already (ValueError)."""
        return NewEvent(
            id=event_id or uuid7(self.clock(), self.random_bytes),
            type=event_type,
            schema_version=1,
            stream=stream,
            observed_at_us=self.clock(),
            source=Source(self.recorder, next(self._seq), SERVICE_SITE),
            data=canonical_json(data),
            causation_id=causation_id,
        )


def named_event_id(*parts: object) -> str:
    """The id of an event that can exist only once, by what it is about (UUIDv5): the second try finds the first."""
    return str(uuid.uuid5(_NAMESPACE, "\n".join(map(str, parts))))
