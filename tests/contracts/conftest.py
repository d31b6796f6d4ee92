"""The places where the store contract is run: a data folder, and a database on every PostgreSQL of this machine."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from service.settings import Settings
from service.store import EventStore
from tests.event_builders import MOMENT_US
from tests.postgres_server import PostgresServer, installations

POSTGRES = installations()


class Clock:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.now_us = MOMENT_US

    def __call__(self) -> int:
        return self.now_us


class Place(Protocol):
    """Where one store is kept, and a way around the store, as an intruder would take it."""

    settings: Settings

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def locked(self) -> AbstractContextManager[None]: ...


class SqlitePlace:
    """A data folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(data=str(folder / "data"))

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.settings.folder / "events.sqlite")
        try:
            with connection:
                return connection.execute(statement, tuple(parameters)).fetchall()
        finally:
            connection.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock from outside."""
        connection = sqlite3.connect(self.settings.folder / "events.sqlite", isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        finally:
            connection.close()


class PostgresPlace:
    """A database of its own on a running server."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.server = server
        self.settings = Settings(data=str(folder / "data"), database_url=server.new_database())

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert self.settings.database_url is not None
        with psycopg.connect(self.settings.database_url) as connection:
            cursor = connection.execute(statement.replace("?", "%s").encode(), tuple(parameters))
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep everybody else from writing events."""
        assert self.settings.database_url is not None
        with psycopg.connect(self.settings.database_url) as connection:
            connection.execute("LOCK TABLE events IN EXCLUSIVE MODE")
            yield
            connection.rollback()


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], PostgresServer]]:
    """Servers by the name of their installation, started when a test first asks."""
    running: dict[str, PostgresServer] = {}
    with ExitStack() as stack:

        def server(name: str) -> PostgresServer:
            if name not in running:
                running[name] = stack.enter_context(PostgresServer(POSTGRES[name]))
            return running[name]

        yield server


@pytest.fixture(params=["sqlite", *POSTGRES])
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], PostgresServer]) -> Place:
    return SqlitePlace(tmp_path) if request.param == "sqlite" else PostgresPlace(tmp_path, servers(request.param))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(place: Place, clock: Clock) -> Iterator[Callable[..., EventStore]]:
    """Opens the store of the place; whatever a test left open is closed."""
    opened: list[EventStore] = []

    def open_(**arguments: Any) -> EventStore:
        opened.append(EventStore.open(place.settings, clock=clock, **arguments))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., EventStore]) -> EventStore:
    return open_store()
