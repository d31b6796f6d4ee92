"""PostgreSQL behind the same border as SQLite: several service processes, one of them in the sequence at a time.

A group commit is one short critical section under a transaction-level advisory lock: whoever holds it sees everything
that was committed before, counts on from there, and lets go with its commit or its death. There is no leader to elect
and none to lose. Rows go in by binary COPY; LISTEN/NOTIFY says once per group that something came, and is only a hint.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from service.errors import Corrupt, RetraceError, SetupError
from service.store.engine import Database, Row, unavailable

_log = logging.getLogger(__name__)

SEQUENCE_LOCK = 0x52_45_54_52_41_43_45
"""Key of the advisory lock, the same in every process: the letters of RETRACE."""
CHANNEL = "retrace_head"
_LOCK_TIMEOUT = "10s"
_LISTEN_TICK_S = 0.1
_UNAVAILABLE_CLASSES = ("08", "40", "53", "55", "57", "58")
"""SQLSTATE classes that pass: connection, rollback, resources (disk full), lock not available, shutdown, system."""
_CORRUPT_CLASS = "XX"


class PostgresDatabase(Database):
    """A database on a PostgreSQL server; every process of the service opens its own."""

    is_shared = True

    def __init__(self, url: str, read_only: bool = False) -> None:
        self._url = _checked_url(url)
        options = f"-c TimeZone=UTC -c lock_timeout={_LOCK_TIMEOUT}"
        reader = sa.create_engine(
            self._url, pool_size=8, max_overflow=0, pool_pre_ping=True, isolation_level="REPEATABLE READ",
            connect_args={"options": f"{options} -c default_transaction_read_only=on"},
        )  # fmt: skip
        writer = None
        if not read_only:
            # READ COMMITTED, so that each statement after the lock sees what the holder before us has committed.
            writer = sa.create_engine(
                self._url, pool_size=1, max_overflow=0, isolation_level="READ COMMITTED",
                connect_args={"options": options},
            )  # fmt: skip
        super().__init__(reader, writer)
        self._listener: _Listener | None = None

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction in the sequence: it begins with the advisory lock, which ends with it."""
        with super().writing() as connection:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (SEQUENCE_LOCK,))
            yield connection

    def fetch_by(
        self, connection: sa.Connection, statement: str, column: str, values: Sequence[Any]
    ) -> list[Row]:  # fmt: skip
        """All rows of `statement` whose `column` is one of the values."""
        return self.fetch(connection, f"{statement} WHERE {column} = ANY(?)", (list(values),)) if values else []

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Add rows by binary COPY."""
        if not rows:
            return
        columns = ", ".join(column.name for column in table.columns)
        types = [column.type.compile(connection.dialect).lower() for column in table.columns]
        driver: Any = connection.connection
        with (
            driver.cursor() as cursor,
            cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def announce(self, connection: sa.Connection, position: int) -> None:
        """One notification per group; it is delivered with the commit, or not at all."""
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, str(position)))

    def listen(self, on_hint: Callable[[], None]) -> None:
        """Call `on_hint` whenever a process has announced something."""
        engine = sa.create_engine(self._url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        self._listener = _Listener(engine, on_hint)

    def text(self, statement: str) -> str:
        """psycopg's marks."""
        return statement.replace("?", "%s")

    def translate(self, error: sa.exc.DBAPIError) -> RetraceError | sa.exc.DBAPIError:
        """By SQLSTATE; an error without one is a connection that broke."""
        return _translated(error.orig) or error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import psycopg

        try:
            with super()._translated():
                yield
        except psycopg.Error as error:  # raised by COPY, which SQLAlchemy does not see
            raise _translated(error) or error from error

    def close(self) -> None:
        """Stop listening and give all connections back."""
        if self._listener is not None:
            self._listener.close()
        super().close()


class _Listener:
    """A thread with a connection of its own. A lost connection is opened again; who waits polls meanwhile."""

    def __init__(self, engine: sa.Engine, on_hint: Callable[[], None]) -> None:
        self._engine = engine
        self._on_hint = on_hint
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retrace-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closed.set()
        self._thread.join()

    def _run(self) -> None:
        import psycopg

        while not self._is_closed.is_set():
            try:
                self._listen()
            except (psycopg.Error, sa.exc.DBAPIError) as error:
                _log.warning("not listening for new events, polling goes on: %s", error)
                self._is_closed.wait(_LISTEN_TICK_S)

    def _listen(self) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            self._on_hint()  # something may have come while nobody listened
            driver: Any = connection.connection.driver_connection
            while not self._is_closed.is_set():
                for _ in driver.notifies(timeout=_LISTEN_TICK_S, stop_after=1):
                    self._on_hint()


def _translated(error: BaseException | None) -> RetraceError | None:
    state = getattr(error, "sqlstate", None)
    first_line = str(error).strip().split("\n")[0]
    if state is None or state.startswith(_UNAVAILABLE_CLASSES):
        return unavailable(f"the database cannot take it now ({state or 'no connection'}: {first_line})")
    if state.startswith(_CORRUPT_CLASS):
        return Corrupt(f"the database says that it is damaged: {first_line}")
    return None


def _checked_url(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise SetupError("the database URL must begin with postgresql:// (RETRACE_DATABASE_URL)")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise SetupError("PostgreSQL needs psycopg; install retrace[postgres]") from None
    return parsed.set(drivername="postgresql+psycopg")
