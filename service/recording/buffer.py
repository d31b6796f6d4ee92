"""Events that wait to be sent, in order and within a bound. Knows neither HTTP nor threads.

When the bound is reached the oldest snapshots go first: the next snapshot says most of what they said. Where they stood
a `recorder.thinned` event says how many went; commands and everything else are never dropped.
"""

from collections import deque

import msgspec

from service.domain.events import RECORDER_THINNED, STATE_REPORTED, RecorderThinned
from service.errors import RecorderFull

_ENVELOPE_BYTES = 400
"""What an event weighs besides its payload, roughly."""


class Waiting(msgspec.Struct):
    """An event before it has its `seq`. `data` is its JSON text; `thinned` counts the snapshots a notice stands for."""

    id: str
    type: str
    stream: str
    observed_at: str
    data: bytes
    causation_id: str | None = None
    thinned: int = 0

    @property
    def stands_for(self) -> int:
        """How many emitted events this one settles: itself, or the snapshots that it says are gone."""
        return max(1, self.thinned)

    @property
    def size_bytes(self) -> int:
        """Its weight in the buffer."""
        return len(self.data) + _ENVELOPE_BYTES


class EventBuffer:
    """First in, first out; not thread-safe."""

    def __init__(self, size_bytes_max: int) -> None:
        self._waiting: deque[Waiting] = deque()
        self._size_bytes_max = size_bytes_max
        self.size_bytes = 0
        self.thinned = 0
        """Snapshots dropped so far."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: Waiting) -> None:
        """Add an event, thinning older snapshots as far as needed. Raises RecorderFull when that is not enough."""
        while self.size_bytes + event.size_bytes > self._size_bytes_max:
            if not self._thin_oldest():
                raise RecorderFull(
                    f"{len(self._waiting)} events with {self.size_bytes} bytes wait to be sent, at most "
                    f"{self._size_bytes_max} may; is the service running?", retry_after_s=1,
                )  # fmt: skip
        self._waiting.append(event)
        self.size_bytes += event.size_bytes

    def take(self, events_max: int, size_bytes_max: int) -> list[Waiting]:
        """The oldest events, at least one if there is any, within the limits."""
        taken: list[Waiting] = []
        taken_bytes = 0
        while self._waiting and len(taken) < events_max:
            size_bytes = self._waiting[0].size_bytes
            if taken and taken_bytes + size_bytes > size_bytes_max:
                break
            taken.append(self._waiting.popleft())
            taken_bytes += size_bytes
        self.size_bytes -= taken_bytes
        return taken

    def _thin_oldest(self) -> bool:
        """Put a notice in the place of the oldest snapshot, or count it on the notice before it. False if none."""
        at = next((at for at, event in enumerate(self._waiting) if event.type == STATE_REPORTED), None)
        if at is None:
            return False
        dropped = self._waiting[at]
        before = self._waiting[at - 1] if at else None
        self.size_bytes -= dropped.size_bytes
        self.thinned += 1
        if before is not None and before.type == RECORDER_THINNED and before.stream == dropped.stream:
            del self._waiting[at]
            self.size_bytes -= before.size_bytes
            self._count(before)
        else:
            self._waiting[at] = dropped
            dropped.type, dropped.causation_id = RECORDER_THINNED, None
            self._count(dropped)
        return True

    def _count(self, notice: Waiting) -> None:
        notice.thinned += 1
        notice.data = msgspec.json.encode(RecorderThinned(notice.thinned))
        self.size_bytes += notice.size_bytes
