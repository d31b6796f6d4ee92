"""Waiting for new events. A follower holds a position, reads bounded batches and waits for more: it pulls.

Nobody pushes, so a slow follower neither blocks the writer nor grows memory. Where other processes write too, the
head is also asked from the database at intervals; any notification is only a hint to ask sooner.
"""

import threading
import time
from collections.abc import Callable

_POLL_S = 0.25


class HeadWatch:
    """The newest position that is known here, and whoever waits for it to move."""

    def __init__(self, position: int, ask: Callable[[], int] | None) -> None:
        """`ask` reads the head from the database when other processes may move it; None when only this one can."""
        self._position = position
        self._ask = ask
        self._moved = threading.Condition()
        self._is_closed = False

    def position(self) -> int:
        """The head, asked anew where others may have moved it."""
        if self._ask is not None and not self._is_closed:
            self.advance(self._ask())
        return self._position

    def advance(self, position: int) -> None:
        """The head moved to `position`: wake who waits for it. Never goes back."""
        with self._moved:
            if position > self._position:
                self._position = position
                self._moved.notify_all()

    def wait_beyond(self, position: int, timeout_s: float) -> int:
        """Block until the head is past `position`, the time is over or the store closes; the head then."""
        end = time.monotonic() + timeout_s
        head = self.position()
        while head <= position and not self._is_closed:
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                break
            with self._moved:
                if self._position <= position and not self._is_closed:
                    self._moved.wait(remaining_s if self._ask is None else min(_POLL_S, remaining_s))
            head = self.position()
        return head

    def hint(self) -> None:
        """Another process says that it stored something: who waits asks now."""
        with self._moved:
            self._moved.notify_all()

    def close(self) -> None:
        """Wake everybody; nobody waits from now on."""
        with self._moved:
            self._is_closed = True
            self._moved.notify_all()
