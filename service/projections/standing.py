"""Whether the views keep up with the store: head, position, lag, and for how long they have stood still behind it.

Views that stand still while the head is beyond them are unwell after STILL_S seconds, whatever the reason: a loop that
failed, a lock, a fold that never ends. Views at the head may rest for ever.
"""

import threading
from typing import Any

from service.domain.times import US_PER_S, Clock
from service.projections import coverage
from service.projections.views import Views

STILL_S = 20.0
"""Asked every few seconds, a standstill is seen well within 30 s."""


class Standing:
    """Remembers when the views were last seen to move or to be at the head. May be asked from any thread."""

    def __init__(self, views: Views, clock: Clock) -> None:
        self._views = views
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = (views.position(), clock())

    def report(self, head: int) -> dict[str, Any]:
        """How the views stand against the store's `head`; `is_well` is False for a standstill."""
        now_us, position = self._clock(), self._views.position()
        with self._lock:
            if position != self._seen[0] or position >= head:
                self._seen = (position, now_us)
            still_s = (now_us - self._seen[1]) / US_PER_S
        with self._views.reading() as connection:
            views = coverage.of_views(connection)
        return {
            "head": head,
            "position": position,
            "lag": max(0, head - position),
            "still_s": still_s,
            "is_well": still_s < STILL_S,
            "views": views,
        }
