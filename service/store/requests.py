"""What waits for the writer: append requests (checked and hashed in the sender's thread), other work, and the queue.

The queue is bounded by requests and by bytes; a full one refuses at once (StoreOverloaded), so a sender waits on its
own side and memory stays bounded.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import sha256
from typing import Any

import msgspec
import sqlalchemy as sa

from service.domain.envelope import NewEvent, Receipt
from service.errors import InvalidField, StoreOverloaded, StoreUnavailable, TooLarge

GROUP_REQUESTS_MAX = 512
GROUP_EVENTS_MAX = 4096
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NAMES_BYTES_MAX = 2500
"""An index entry on PostgreSQL ends at 2,704 bytes, and a leaf in an entry bundle at 65,535."""
_INT64_MAX = 2**63 - 1
_OBSERVED_MIN_US, _OBSERVED_MAX_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_ENVELOPE_BYTES = 512
"""What an event weighs in the queue besides its payload, roughly."""
_RETRY_AFTER_S = 1.0


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """An event that the store can take: its id as bytes and the digest of its (salted) data."""

    event: NewEvent
    event_id: bytes
    data_sha256: bytes


class AppendRequest:
    """One batch: all of it is stored or nothing."""

    __slots__ = ("expected_version", "future", "items", "size_bytes")

    def __init__(self, items: list[Prepared], expected_version: int | None) -> None:
        self.items = items
        self.expected_version = expected_version
        self.future: Future[list[Receipt]] = Future()
        self.size_bytes = sum(len(item.event.data) + _ENVELOPE_BYTES for item in items)


class WorkRequest:
    """Something else that must happen in the writer's order (signing a head, erasing); runs in its own transaction."""

    __slots__ = ("future", "size_bytes", "work")

    def __init__(self, work: Callable[[sa.Connection], Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()
        self.size_bytes = 0


Request = AppendRequest | WorkRequest


def prepare(events: Sequence[NewEvent], expected_version: int | None) -> AppendRequest:
    """A request out of checked events. Raises InvalidField for what no database can keep, naming the event."""
    items = []
    for at, event in enumerate(events):
        if _UUID.fullmatch(event.id) is None:
            raise InvalidField(f"[{at}].id: got {event.id[:64]!r}, wanted a lower-case UUID", path=f"[{at}].id")
        _check_numbers(event, at)
        _check_text(event, at)
        digest = sha256(event.data if event.salt is None else event.salt + event.data).digest()
        items.append(Prepared(event, bytes.fromhex(event.id.replace("-", "")), digest))
    if expected_version is not None and len({event.stream for event in events}) != 1:
        raise InvalidField("expected_version needs a batch whose events are all of one stream", path="stream")
    return AppendRequest(items, expected_version)


def _check_numbers(event: NewEvent, at: int) -> None:
    if not _OBSERVED_MIN_US <= event.observed_at_us <= _OBSERVED_MAX_US:
        raise InvalidField(f"[{at}].observed_at is outside the years 1 to 9999", path=f"[{at}].observed_at")
    if not (0 <= event.source.seq <= _INT64_MAX and 0 <= event.schema_version <= _INT64_MAX):
        raise InvalidField(f"[{at}]: seq and schema_version must be 0 to 2^63-1", path=f"[{at}].source.seq")


def _check_text(event: NewEvent, at: int) -> None:
    """No NUL (PostgreSQL keeps none, SQLite's functions cut at it) and no lone surrogate (it has no UTF-8 form)."""
    source = event.source
    text = f"{event.type}{event.stream}{source.recorder}{source.site}{event.correlation_id}{event.causation_id}"
    if "\x00" in text:
        raise InvalidField(f"[{at}]: the envelope contains the NUL character", path=f"[{at}]")
    try:
        size_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidField(f"[{at}]: the envelope contains a lone surrogate", path=f"[{at}]") from None
    if size_bytes > _NAMES_BYTES_MAX:
        raise InvalidField(
            f"[{at}]: stream, type, source and ids have {size_bytes} bytes together, wanted at most {_NAMES_BYTES_MAX}",
            path=f"[{at}]", limit=_NAMES_BYTES_MAX, got=size_bytes, unit="bytes",
        )  # fmt: skip


def uuid_text(event_id: bytes) -> str:
    """The id's text form out of its 16 bytes."""
    text = event_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class RequestQueue:
    """First in, first out; many senders, one writer."""

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._waiting: deque[Request] = deque()
        self._size_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, request: Request) -> None:
        """Add a request. Raises StoreOverloaded (full), TooLarge (could never fit) or StoreUnavailable (closed)."""
        if request.size_bytes > self._bytes_max:
            raise TooLarge(
                f"the batch weighs {request.size_bytes} bytes, at most {self._bytes_max} can wait; send it in parts",
                limit=self._bytes_max, got=request.size_bytes, unit="bytes",
            )  # fmt: skip
        with self._changed:
            if self._is_closed:
                raise StoreUnavailable(
                    "the event store is closed; send again when it runs", retry_after_s=_RETRY_AFTER_S
                )
            if len(self._waiting) >= self._requests_max or self._size_bytes + request.size_bytes > self._bytes_max:
                raise StoreOverloaded(
                    f"{len(self._waiting)} requests with {self._size_bytes} bytes wait for the writer; "
                    f"send the same events again in {_RETRY_AFTER_S:g} s",
                    retry_after_s=_RETRY_AFTER_S,
                )
            self._waiting.append(request)
            self._size_bytes += request.size_bytes
            self._changed.notify()

    def take_group(self) -> list[Request]:
        """Wait for a request, then take what waits behind it, up to the group limits. Empty when closed and drained.

        No timer: while one group is being committed the next one gathers. Other work is a group of its own.
        """
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            group: list[Request] = []
            events_count = 0
            while self._waiting and len(group) < GROUP_REQUESTS_MAX:
                request = self._waiting[0]
                count = len(request.items) if isinstance(request, AppendRequest) else GROUP_EVENTS_MAX
                if group and events_count + count > GROUP_EVENTS_MAX:
                    break
                group.append(self._waiting.popleft())
                events_count += count
            return group

    def done(self, group: Sequence[Request]) -> None:
        """The group is answered: its bytes may be used by others."""
        with self._changed:
            self._size_bytes -= sum(request.size_bytes for request in group)

    def close(self) -> None:
        """Take no more; what waits is still handed out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
