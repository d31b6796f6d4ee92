"""Retention: payloads that are older than a moment are taken out, of all streams or of one job. Envelopes stay.

What the service itself has said (verdicts, archived artifacts, earlier erasures, key changes) is kept: it is small,
names no person, and the record of what happened leans on it.
"""

from collections.abc import Callable

from service.domain.envelope import NewEvent
from service.domain.events import SERVICE_TYPES, PayloadErased
from service.store.erase import Erasure
from service.store.event_store import EventStore

BATCH = 500
"""Payloads per transaction and `payload.erased` event, so that appends go on in between."""


def expire_payloads(
    store: EventStore, before_us: int, event: Callable[[PayloadErased], NewEvent], stream: str | None = None
) -> int:  # fmt: skip
    """Take out the payloads of reported events recorded at or before the moment (µs UTC); how many were taken out."""
    last, after, expired_count = store.position_at(before_us), 0, 0
    while events := store.read(after=after, limit=BATCH, up_to=last, stream=stream):
        after = events[-1].position
        due = [Erasure(one.position) for one in events if not one.is_erased and one.event.type not in SERVICE_TYPES]
        if due:
            store.erase(due, "retention", event)
            expired_count += len(due)
    return expired_count
