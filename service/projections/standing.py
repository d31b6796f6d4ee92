"""Whether the views keep up with the store: head, position, lag, and for how long they have stood still behind it.

Views that stand still although events wait are unwell after STILL_S seconds, whatever the reason: a loop that failed, a
lock, a fold that never ends. Views at the head may rest for ever.
"""

from typing import Any, Protocol

from service.domain.envelope import StoredEvent
from service.domain.times import US_PER_S
from service.projections import coverage
from service.projections.views import Views

STILL_S = 20.0
"""Asked every few seconds, a standstill is seen well within 30 s."""


class Recorded(Protocol):
    """What the views are measured against: `EventStore`, or whatever reads like it."""

    def head(self) -> int: ...

    def read_one(self, position: int) -> StoredEvent: ...


def standing(views: Views, store: Recorded, now_us: int) -> dict[str, Any]:
    """How the views stand against the store; `is_well` is False for a standstill.

    They stand still since they last moved, or since the first event that waits was recorded, whichever is later.
    """
    head, position = store.head(), views.position()
    still_us = 0
    if position < head:
        waits_since_us = store.read_one(position + 1).recorded_at_us
        still_us = max(0, now_us - max(waits_since_us, views.moved_us))
    with views.reading() as connection:
        each = coverage.of_views(connection)
    return {
        "head": head,
        "position": position,
        "lag": max(0, head - position),
        "still_s": still_us / US_PER_S,
        "is_well": still_us < STILL_S * US_PER_S,
        "views": each,
    }
