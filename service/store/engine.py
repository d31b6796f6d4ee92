"""The border to the database: connections, transactions, and driver errors translated once. SQLite lives here.

`Database` is what the other modules of this room speak to; `service.store.postgres` gives the same for PostgreSQL.
Statements are written once with `?` marks and run as driver text, because the ORM's insert costs 40 % at batch 500.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from service.errors import Corrupt, RetraceError, SetupError, StoreUnavailable

Row = tuple[Any, ...]
Parameters = Sequence[Any]

_ID_CHUNK = 500
_RETRY_AFTER_S = 1.0
_ROWS_PER_STATEMENT = 50


class Database(ABC):
    """One open database: a pool for readers and, unless read-only, one connection for the single writer."""

    def __init__(self, reader: sa.Engine, writer: sa.Engine | None) -> None:
        self._reader = reader
        self._writer = writer

    is_shared = False
    """Whether other processes may write too, so that every group must look for what they stored."""

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from its first statement on; commits when the block ends.

        Raises StoreUnavailable when the lock or the disk cannot be had; nothing is stored then.
        """
        if self._writer is None:
            raise SetupError("the store was opened read-only; open it without read_only=True to write")
        with self._translated(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the store and blocks no writer."""
        with self._translated(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise self.translate(error) from error
        except sa.exc.TimeoutError as error:
            raise unavailable("all connections to the event store are in use") from error

    @abstractmethod
    def translate(self, error: sa.exc.DBAPIError) -> RetraceError | sa.exc.DBAPIError:
        """What a driver error means to us; the error itself when it can only be a mistake of ours."""

    def fetch(self, connection: sa.Connection, statement: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""
        rows: Any = connection.exec_driver_sql(self.text(statement), tuple(parameters)).fetchall()
        found: list[Row] = rows  # SQLAlchemy's rows are tuples; copying them would cost as much as fetching them
        return found

    def execute(self, connection: sa.Connection, statement: str, parameters: Parameters = ()) -> None:
        """Run a statement that gives no rows."""
        connection.exec_driver_sql(self.text(statement), tuple(parameters))

    def fetch_by(
        self, connection: sa.Connection, statement: str, column: str, values: Sequence[Any]
    ) -> list[Row]:  # fmt: skip
        """All rows of `statement` whose `column` is one of the values, a bounded number of values at a time."""
        rows: list[Row] = []
        for at in range(0, len(values), _ID_CHUNK):
            chunk = tuple(values[at : at + _ID_CHUNK])
            marks = ",".join("?" * len(chunk))
            rows += self.fetch(connection, f"{statement} WHERE {column} IN ({marks})", chunk)
        return rows

    @abstractmethod
    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Add rows that hold every column of the table in its order."""

    def replace_tiles(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        """Write tiles `(level, tile_index, hashes)`: new ones, and the longer form of a partial one."""
        statement = (
            "INSERT INTO tiles (level, tile_index, hashes) VALUES (?, ?, ?) "
            "ON CONFLICT (level, tile_index) DO UPDATE SET hashes = excluded.hashes"
        )
        connection.exec_driver_sql(self.text(statement), list(rows))

    def announce(self, connection: sa.Connection, position: int) -> None:
        """Tell other processes, inside the transaction, that the head is about to move. A hint only."""

    def wipe(self) -> None:
        """After an erasure: leave no copy of what was erased in files of the database, as far as it lets us."""

    def listen(self, on_hint: Callable[[], None]) -> None:
        """Call `on_hint` when another process may have moved the head. Without other processes: never."""

    def text(self, statement: str) -> str:
        """The statement in the driver's spelling."""
        return statement

    def close(self) -> None:
        """Give all connections back."""
        self._reader.dispose()
        if self._writer is not None:
            self._writer.dispose()


class SqliteDatabase(Database):
    """`events.sqlite` in the data folder: WAL, explicit BEGIN, one writer."""

    def __init__(self, path: Path, synchronous: str = "FULL", read_only: bool = False) -> None:
        if synchronous not in {"FULL", "NORMAL"}:
            raise SetupError(f"synchronous is {synchronous!r}; wanted FULL or NORMAL (RETRACE_SYNCHRONOUS)")
        if read_only and not path.exists():
            raise SetupError(f"there is no event store at {path}; name the data folder with --data")
        reader = _sqlite_engine(path, "BEGIN", synchronous, read_only, pool_size=8)
        writer = None if read_only else _sqlite_engine(path, "BEGIN IMMEDIATE", synchronous, False, pool_size=1)
        super().__init__(reader, writer)

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Add rows, many with one statement.

        The driver gives Python's lock away at every step. With `executemany` that is once a row, and beside one busy
        thread each row then waits a whole switch interval (5 ms): 75 times slower in groups of 32.
        """
        for at in range(0, len(rows), _ROWS_PER_STATEMENT):
            chunk = rows[at : at + _ROWS_PER_STATEMENT]
            connection.exec_driver_sql(_insert_statement(table, len(chunk)), tuple(chain.from_iterable(chunk)))

    def wipe(self) -> None:
        """Freed pages are overwritten by `secure_delete`; the write-ahead log still holds the old ones, so empty it."""
        if self._writer is None:
            return
        pooled = self._writer.raw_connection()  # past SQLAlchemy's BEGIN: a checkpoint of the log needs no transaction
        try:
            cursor = pooled.cursor()
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.close()
        finally:
            pooled.close()

    def translate(self, error: sa.exc.DBAPIError) -> RetraceError | sa.exc.DBAPIError:
        """By SQLite's primary result code (sqlite.org/rescode.html)."""
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if "Could not decode to UTF-8" in str(error.orig):
            return Corrupt(f"the event store's file is damaged: {error.orig}")
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return unavailable("another process holds the write lock of the event store")
        if code == sqlite3.SQLITE_FULL:
            return unavailable("the disk of the data folder is full; nothing of this request was stored")
        if code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            return unavailable(f"the event store's file cannot be used: {error.orig}")
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return Corrupt(f"the event store's file is damaged: {error.orig}; run `retrace verify`")
        return error


@lru_cache(maxsize=4 * _ROWS_PER_STATEMENT)
def _insert_statement(table: sa.Table, rows_count: int) -> str:
    names = [column.name for column in table.columns]
    row = f"({', '.join('?' * len(names))})"
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * rows_count)}"


def unavailable(reason: str) -> StoreUnavailable:
    """The refusal that a sender may answer by trying again."""
    return StoreUnavailable(
        f"{reason}; send the same events again in {_RETRY_AFTER_S:g} s", retry_after_s=_RETRY_AFTER_S
    )


def _sqlite_engine(path: Path, begin: str, synchronous: str, read_only: bool, pool_size: int) -> sa.Engine:
    target = f"file:{path.absolute()}?mode={'ro' if read_only else 'rwc'}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(target, uri=True, check_same_thread=False, cached_statements=256)

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=sa.QueuePool, pool_size=pool_size, max_overflow=0, pool_timeout=30
    )

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: object) -> None:
        # The driver must not open transactions by itself: with its default a SELECT opens none, and updates get lost.
        connection.isolation_level = None
        for pragma in ("busy_timeout=5000", f"synchronous={synchronous}", "cache_size=-16384", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
