"""Bringing views up to the store's head, and folding them anew beside the live ones."""

from collections.abc import Callable

from service.projections.views import Views
from service.store.event_store import EventStore

BATCH_EVENTS = 2000
"""Events per transaction while catching up: enough to hide the commit, little enough to hold in memory."""


def catch_up(views: Views, store: EventStore, progressed: Callable[[int], None] = lambda position: None) -> int:
    """Fold everything that the store has. Returns the views' position; calls `progressed` after each transaction."""
    while events := store.read(views.position(), BATCH_EVENTS):
        progressed(views.apply(events))
    return views.position()
