"""The places where the store contract is run: one per database."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from service.settings import Settings
from service.store import EventStore
from tests.event_builders import MOMENT_US


class Clock:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.now_us = MOMENT_US

    def __call__(self) -> int:
        return self.now_us


class SqlitePlace:
    """A data folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(data=str(folder / "data"))

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Reach around the store, as a disk error or an intruder would."""
        connection = sqlite3.connect(self.settings.folder / "events.sqlite")
        try:
            with connection:
                return connection.execute(statement, tuple(parameters)).fetchall()
        finally:
            connection.close()


@pytest.fixture(params=["sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(place: SqlitePlace, clock: Clock) -> Iterator[Callable[..., EventStore]]:
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
