"""The event store as the other rooms see it: open, append, read, wait, close. What it is made of stays behind it."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Self, TypeVar

import sqlalchemy as sa

from service.domain.canonical import sha256_hex
from service.domain.envelope import NewEvent, Receipt, StoredEvent
from service.domain.events import ErasedPayload, PayloadErased
from service.domain.identifiers import parse_uuid
from service.domain.times import Clock, system_clock
from service.errors import SetupError
from service.settings import Settings
from service.store import migrate
from service.store.append import Writer
from service.store.engine import Database, SqliteDatabase
from service.store.erase import Erasure
from service.store.folder_lock import FolderLock
from service.store.log_tables import newest_head
from service.store.postgres import PostgresDatabase
from service.store.read import Reader
from service.store.requests import RequestQueue
from service.store.subscribe import HeadWatch

T = TypeVar("T")


class EventStore:
    """All events in order, for good. Every method may be called from any thread."""

    def __init__(
        self, database: Database, clock: Clock, settings: Settings, lock: FolderLock | None, read_only: bool
    ) -> None:  # fmt: skip
        """Use `EventStore.open`."""
        self.database = database
        self._lock = lock
        self._reader = Reader(database)
        is_moved_by_others = read_only or database.is_shared
        self._watch = HeadWatch(self._reader.head(), self._reader.head if is_moved_by_others else None)
        self._writer = None
        if not read_only:
            queue = RequestQueue(settings.queue_requests_max, settings.queue_bytes_max)
            self._writer = Writer(database, clock, queue, self._watch.advance)
        database.listen(self._watch.hint)

    @classmethod
    def open(cls, settings: Settings, clock: Clock = system_clock, read_only: bool = False) -> Self:
        """Open the store that the settings name, bringing its schema up to date; a new one when there is none.

        That is `events.sqlite` in the data folder, or the PostgreSQL database of `database_url`.

        With `read_only` it works beside a running writer and changes nothing. Raises DataFolderInUse when another
        process writes there, SetupError when the schema does not fit this code.
        """
        is_embedded = settings.database_url is None
        lock = FolderLock(settings.folder) if is_embedded and not read_only else None
        database = None
        try:
            database = _database(settings, read_only)
            if read_only:
                with database.reading() as connection:
                    migrate.check(connection)
            else:
                with database.writing() as connection:
                    migrate.upgrade(connection)
            return cls(database, clock, settings, lock, read_only)
        except BaseException:
            if database is not None:
                database.close()
            if lock is not None:
                lock.release()
            raise

    def append(
        self, events: Sequence[NewEvent], expected_version: int | None = None
    ) -> Future[list[Receipt]]:  # fmt: skip
        """Store a batch, all or nothing; the future gives one receipt per event once they are on disk.

        Events stored before, with the same content, give their original receipt (`is_redelivery`). The future fails
        with EventIdConflict (same id, other content), VersionConflict (`expected_version` is not the stream_position
        of the batch's one stream) or StoreUnavailable (nothing was stored: send the same ids again). Raises at once
        StoreOverloaded when the queue is full, TooLarge when the batch could never fit, InvalidField for what no
        database can keep.
        """
        return self._writing().append(events, expected_version)

    def transact(self, work: Callable[[sa.Connection], T]) -> Future[T]:
        """Run `work` in a write transaction of its own on the writer's thread, in order with the appends."""
        return self._writing().transact(work)

    def erase(self, erasures: Sequence[Erasure], reason: str, event: Callable[[PayloadErased], NewEvent]) -> Receipt:
        """Take payloads out for good, and append the `payload.erased` event that `event` makes of the facts.

        Envelopes, positions, leaves and proofs stay. Blocks until it is done; returns the receipt of the event.
        Raises EventNotFound, and then nothing was changed.
        """
        facts = PayloadErased(
            [
                ErasedPayload(one.position, None if one.redacted is None else sha256_hex(one.redacted))
                for one in erasures
            ],
            reason,
        )
        receipt = self._writing().erase(erasures, event(facts)).result()[0]
        self.database.wipe()
        return receipt

    def read(
        self, after: int = 0, limit: int = 1000, up_to: int | None = None, stream: str | None = None
    ) -> list[StoredEvent]:  # fmt: skip
        """Events with position in (after, up_to], ascending, at most `limit`; of one stream when given."""
        return self._reader.read(after, limit, up_to, stream)

    def read_one(self, position: int) -> StoredEvent:
        """The event at a position. Raises EventNotFound."""
        return self._reader.read_one(position)

    def find(self, event_id: str) -> StoredEvent | None:
        """The event with this id, or None. Raises InvalidField for anything but a UUID."""
        return self._reader.find(parse_uuid(event_id, "id").bytes)

    def head(self) -> int:
        """The newest position; 0 when the store is empty. Whoever sees n can read all of 1 to n."""
        return self._watch.position()

    def position_at(self, moment_us: int) -> int:
        """The last position recorded at or before the moment (µs UTC); 0 if there is none."""
        return self._reader.position_at(moment_us)

    def wait_beyond(self, position: int, timeout_s: float) -> int:
        """Block until the head is past `position`, `timeout_s` is over or the store closes. Returns the head."""
        return self._watch.wait_beyond(position, timeout_s)

    def tile(self, level: int, tile_index: int) -> bytes:
        """The stored hashes of one tile of the log, concatenated; empty when there is none."""
        return self._reader.tile(level, tile_index)

    def newest_head(self) -> str | None:
        """The note of the tree head that was signed last, as the database keeps it."""
        with self.database.reading() as connection:
            return newest_head(connection)

    def close(self) -> None:
        """Answer what waits, then close. Doing it twice is harmless."""
        if self._writer is not None:
            self._writer.close()
        self._watch.close()
        self.database.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _writing(self) -> Writer:
        if self._writer is None:
            raise SetupError("the store was opened read-only; open it without read_only=True to write")
        return self._writer


def _database(settings: Settings, read_only: bool) -> Database:
    if settings.database_url is None:
        return SqliteDatabase(settings.folder / "events.sqlite", settings.synchronous, read_only)
    return PostgresDatabase(settings.database_url, read_only)
