"""Bringing views up to the store's head, and folding them anew beside the live ones.

Batches are bounded; each is one transaction with its progress. A rebuild folds into a second file with no regard for
crashes (it can begin again), catches up with what was recorded meanwhile, and is swapped in whole.
"""

from collections.abc import Callable
from typing import Protocol

from service.domain.envelope import StoredEvent
from service.domain.times import Clock, system_clock
from service.projections import schema
from service.projections.views import Views
from service.settings import Settings

BATCH_EVENTS = 2000
"""Events per transaction while catching up: enough to hide the commit, little enough to hold in memory."""
NEAR_EVENTS = 2000
"""A rebuild that is this near to the head finishes inside the swap, while the live views stand still."""

Progressed = Callable[[int], None]


class EventSource(Protocol):
    """What views are folded from: `EventStore`, or whatever reads like it."""

    def read(
        self, after: int = 0, limit: int = 1000, up_to: int | None = None, stream: str | None = None
    ) -> list[StoredEvent]: ...  # fmt: skip

    def head(self) -> int: ...


def catch_up(views: Views, store: EventSource, progressed: Progressed = lambda position: None) -> int:
    """Fold everything that the store has. Returns the views' position; calls `progressed` after each transaction."""
    while events := store.read(views.position(), BATCH_EVENTS):
        progressed(views.apply(events))
    return views.position()


def rebuild(
    views: Views, store: EventSource, settings: Settings, clock: Clock = system_clock,
    progressed: Progressed = lambda position: None,
) -> int:  # fmt: skip
    """Fold every event anew beside the live views, then swap. Readers are answered throughout; returns the position.

    What was quarantined is tried again: after a fix of the code nothing of it remains.
    """
    beside = views.path.with_name(f"{views.path.name}.rebuild")
    schema.remove_file(beside)
    with Views.open(settings, clock, beside) as fresh:
        while store.head() - fresh.position() > NEAR_EVENTS:
            progressed(fresh.apply(store.read(fresh.position(), BATCH_EVENTS)))
        with views.standing_still():
            progressed(catch_up(fresh, store))
            fresh.close()
            views.take_over(beside)
    return views.position()
