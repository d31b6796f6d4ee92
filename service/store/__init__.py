"""The event store: the only writer of `events`, with the log's tiles in the same transaction."""

from service.store.erase import Erasure
from service.store.event_store import EventStore

__all__ = ["Erasure", "EventStore"]
