"""SQLite in a data folder: locks, other processes, damage and an unforeseen error in a group."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from service.errors import Corrupt, DataFolderInUse, SetupError, StoreUnavailable
from service.settings import Settings
from service.store import EventStore
from service.store.engine import SqliteDatabase
from service.store.sequence import Sequencer
from tests.event_builders import new_event, new_events


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


def test_folder_has_one_writer(settings: Settings) -> None:
    with EventStore.open(settings), pytest.raises(DataFolderInUse, match="--data"):
        EventStore.open(settings)


def test_folder_of_another_process_is_refused_and_names_it(settings: Settings) -> None:
    script = (
        "import sys\nfrom service.settings import Settings\nfrom service.store import EventStore\n"
        "EventStore.open(Settings(data=sys.argv[1]))\nprint('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, settings.data], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(DataFolderInUse, match=str(other.pid)):
            EventStore.open(settings)
        other.kill()
    with EventStore.open(settings) as store:
        assert store.head() == 0


def test_failed_open_gives_the_folder_back(settings: Settings) -> None:
    settings.folder.mkdir(parents=True)
    database = settings.folder / "events.sqlite"
    database.write_bytes(b"this is no database, but long enough to be looked at" * 100)
    with pytest.raises(Corrupt):
        EventStore.open(settings)
    database.unlink()
    with EventStore.open(settings) as store:
        assert store.append([new_event()]).result(timeout=60)[0].position == 1


def test_store_of_newer_code_is_not_touched(settings: Settings) -> None:
    EventStore.open(settings).close()
    with sqlite3.connect(settings.folder / "events.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(SetupError, match="newer"):
        EventStore.open(settings)
    with pytest.raises(SetupError, match="9999"):
        EventStore.open(settings, read_only=True)


def test_unknown_durability_is_refused(settings: Settings) -> None:
    with pytest.raises(SetupError, match="RETRACE_SYNCHRONOUS"):
        EventStore.open(Settings(data=settings.data, synchronous="OFF"))


@pytest.mark.parametrize(("word", "number"), [("FULL", 2), ("NORMAL", 1)])
def test_durability_is_what_the_settings_say(settings: Settings, word: str, number: int) -> None:
    with EventStore.open(Settings(data=settings.data, synchronous=word)) as store:
        pragmas = store.transact(
            lambda connection: [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "journal_mode")
            ]
        )
        assert pragmas.result(timeout=60) == [number, "wal"]


def test_write_lock_of_another_process_is_a_retryable_refusal(settings: Settings) -> None:
    """After the busy timeout; and the same ids go through when the lock is gone."""
    event = new_event()
    with EventStore.open(settings) as store:
        store.transact(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout=20")).result(timeout=60)
        other = sqlite3.connect(settings.folder / "events.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as refusal:
            store.append([event]).result(timeout=60)
        assert refusal.value.details["retry_after_s"] > 0
        other.execute("ROLLBACK")
        other.close()
        assert store.append([event]).result(timeout=60)[0].position == 1


def test_full_disk_is_a_retryable_refusal_and_leaves_nothing_half(settings: Settings) -> None:
    """SQLite's own page limit gives the error code of a full disk."""
    with EventStore.open(settings) as store:
        store.append(new_events(10)).result(timeout=60)
        pages = store.transact(lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar())
        limit = f"PRAGMA max_page_count={pages.result(timeout=60)}"
        store.transact(lambda connection: connection.exec_driver_sql(limit)).result(timeout=60)
        batch = new_events(300)
        with pytest.raises(StoreUnavailable, match="full"):
            store.append(batch).result(timeout=60)
        assert store.head() == 10
        store.transact(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=100000")).result(timeout=60)
        assert [receipt.position for receipt in store.append(batch).result(timeout=60)] == list(range(11, 311))


def test_unforeseen_error_fails_only_the_request_at_fault(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    poison = new_event()
    place = Sequencer.append

    def append(self: Sequencer, connection: sa.Connection, requests: Any) -> Any:
        outcomes = place(self, connection, requests)
        if any(item.event.id == poison.id for request in requests for item in request.items):
            raise RuntimeError("a mistake of ours")
        return outcomes

    monkeypatch.setattr(Sequencer, "append", append)
    with EventStore.open(settings) as store:
        futures = [store.append([event]) for event in (new_event(), poison, new_event())]
        assert [type(future.exception(timeout=60)).__name__ for future in futures] == [
            "NoneType", "RuntimeError", "NoneType",
        ]  # fmt: skip
        assert [event.position for event in store.read()] == [1, 2]


def test_tiles_that_do_not_fit_the_events_stop_the_writer(settings: Settings) -> None:
    with EventStore.open(settings) as store:
        store.append(new_events(10)).result(timeout=60)
    with sqlite3.connect(settings.folder / "events.sqlite") as connection:
        connection.execute("DELETE FROM events WHERE position > 5")
    connection.close()
    with EventStore.open(settings) as store, pytest.raises(Corrupt, match="retrace verify"):
        store.append([new_event()]).result(timeout=60)


def test_read_only_open_creates_nothing(settings: Settings) -> None:
    with pytest.raises(SetupError, match="--data"):
        EventStore.open(settings, read_only=True)
    assert not settings.folder.exists()


def test_database_that_is_opened_read_only_cannot_write(settings: Settings) -> None:
    EventStore.open(settings).close()
    database = SqliteDatabase(settings.folder / "events.sqlite", read_only=True)
    with pytest.raises(SetupError, match="read-only"), database.writing():
        pass
    database.close()
