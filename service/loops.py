"""Background loops: views and lake follow the store, the log's head is signed, waiting replays are judged.

A loop is a thread that repeats one step. An error is never swallowed: it is logged, kept in the loop's health for
`GET /health`, and the step is tried again after a pause that doubles. Each loop can be woken to stop at any moment.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from service.audit.log import TransparencyLog
from service.domain.envelope import StoredEvent
from service.domain.times import Clock, format_us
from service.projections.runner import BATCH_EVENTS
from service.store import EventStore

_log = logging.getLogger(__name__)

Step = Callable[[threading.Event], None]
"""One step of a loop. It is given the event that is set when the loop must stop, to wait on instead of sleeping."""

PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 30.0
IDLE_S = 0.2
"""How long a step waits for news before it looks whether it must stop."""


class LoopHealth(msgspec.Struct):
    """How a loop is doing. `failures` counts those in a row; the last error stays visible after it was overcome."""

    name: str
    is_running: bool = False
    failures: int = 0
    last_error: str | None = None
    last_error_at: str | None = None


class Loop:
    """One step, again and again, in a thread of its own."""

    def __init__(self, name: str, step: Step, clock: Clock) -> None:
        self.health = LoopHealth(name)
        self._step = step
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"retrace-{name}", daemon=True)

    def start(self) -> None:
        """Begin. A loop starts once."""
        self.health.is_running = True
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the step that runs be the last one."""
        self._stopping.set()

    def stop(self) -> None:
        """Ask the loop to stop and wait until its step is over."""
        self.ask_to_stop()
        if self.health.is_running:
            self._thread.join()
        self.health.is_running = False

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step(self._stopping)
            except Exception as error:
                self._failed(error)
                pause_s = min(PAUSE_MIN_S * 2 ** (self.health.failures - 1), PAUSE_MAX_S)
                self._stopping.wait(pause_s)
            else:
                self.health.failures = 0

    def _failed(self, error: Exception) -> None:
        self.health.failures = min(self.health.failures + 1, 64)
        self.health.last_error = f"{type(error).__name__}: {error}"
        self.health.last_error_at = format_us(self._clock())
        _log.error("loop %s failed", self.health.name, exc_info=error)


def follow(store: EventStore, position: Callable[[], int], take: Callable[[Sequence[StoredEvent]], int]) -> Step:
    """Give a follower (views, lake) what the store has beyond its position; wait for more."""

    def step(_: threading.Event) -> None:
        events = store.read(position(), BATCH_EVENTS)
        if events:
            take(events)
        else:
            store.wait_beyond(position(), IDLE_S)

    return step


def sign_heads(store: EventStore, log: TransparencyLog, every_s: float) -> Step:
    """Sign the log's head when it has grown, at most every `every_s` seconds."""
    signed_size = 0

    def step(stopping: threading.Event) -> None:
        nonlocal signed_size
        head = store.head()
        if head > signed_size:
            log.signed_head()
            signed_size = head
        stopping.wait(every_s)

    return step


class ReplayDesk(Protocol):
    """What judges replays that were asked for (`service.replaying`)."""

    def judge_next(self) -> bool:
        """Judge one waiting request; False when none waits."""


def judge_replays(store: EventStore, desk: ReplayDesk) -> Step:
    """Judge what waits, one after the other; wait for more."""

    def step(_: threading.Event) -> None:
        head = store.head()
        if not desk.judge_next():
            store.wait_beyond(head, IDLE_S)

    return step
