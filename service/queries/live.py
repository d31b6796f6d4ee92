"""`GET /v1/live`: events as they are recorded, as server-sent events. The cursor is the position.

A reader pulls: each connection reads bounded batches at its own pace, so a slow one neither blocks the writer nor grows
memory. One task waits for the store on behalf of all connections.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from service.errors import UnknownParameter
from service.queries.event_routes import event_row
from service.store import EventStore

BATCH_EVENTS = 64
KEEP_ALIVE_S = 15.0
POSITION_MAX = 2**53 - 1
_POLL_S = 0.2


class HeadBroadcast:
    """Tells everybody on the event loop that the head moved, with one thread for all of them."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._head = store.head()
        self._moved = asyncio.Condition()
        self._is_closed = False

    async def run(self) -> None:
        """Watch the store until `close`."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "retrace-head") as thread:
            while not self._is_closed:
                head = await loop.run_in_executor(thread, self._store.wait_beyond, self._head, _POLL_S)
                if head != self._head:
                    self._head = head
                    await self._tell()

    async def wait_beyond(self, position: int, timeout_s: float) -> int:
        """Wait until the head is past `position`, the time is over or the broadcast closes; the head then."""
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self._head > position or self._is_closed)
        except TimeoutError:
            pass  # nothing new is an answer too
        return self._head

    @property
    def is_closed(self) -> bool:
        """Whether live tails must end."""
        return self._is_closed

    async def close(self) -> None:
        """End every live tail; what comes later is for the next connection."""
        self._is_closed = True
        await self._tell()

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()


@get("/v1/live", tags=["views"])
async def live(
    store: NamedDependency[EventStore], broadcast: NamedDependency[HeadBroadcast],
    after: FromQuery[int | None] = None, limit: Annotated[int | None, QueryParameter(ge=1)] = None,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> ServerSentEvent:  # fmt: skip
    """Events after a position (the newest one when none is given), then each new one; ends after `limit` events.

    A reconnecting browser sends Last-Event-ID, which wins over `after`.
    """
    return ServerSentEvent(_tail(store, broadcast, _start(store, after, last_event_id), limit))


def _start(store: EventStore, after: int | None, last_event_id: str | None) -> int:
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19):
            raise UnknownParameter("Last-Event-ID: wanted the position of an event", parameter="Last-Event-ID")
        return int(last_event_id)
    if after is None:
        return store.head()
    if not 0 <= after <= POSITION_MAX:
        raise UnknownParameter(f"after: got {after}, wanted a position or 0", parameter="after")
    return after


async def _tail(
    store: EventStore, broadcast: HeadBroadcast, after: int, limit: int | None
) -> AsyncIterator[ServerSentEventMessage]:  # fmt: skip
    remaining = limit
    yield ServerSentEventMessage(comment=f"after {after}", data=None)
    while not broadcast.is_closed and remaining != 0:
        wanted = BATCH_EVENTS if remaining is None else min(BATCH_EVENTS, remaining)
        events = await asyncio.to_thread(store.read, after, wanted)
        for stored in events:
            row = msgspec.json.encode(event_row(stored)).decode()
            yield ServerSentEventMessage(data=row, event=stored.event.type, id=stored.position)
            after = stored.position
        if remaining is not None:
            remaining -= len(events)
        if not events and await broadcast.wait_beyond(after, KEEP_ALIVE_S) <= after:
            yield ServerSentEventMessage(comment="waiting", data=None)
