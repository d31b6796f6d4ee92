"""The demo begins in an empty folder; what it did not write itself it does not touch."""

import os
from pathlib import Path

import pytest

from service.demo.data_folder import fresh_folder
from service.domain.envelope import NewEvent, Source
from service.domain.identifiers import uuid7
from service.errors import DataFolderInUse, SetupError
from service.settings import Settings
from service.store import EventStore
from service.store.folder_lock import FolderLock


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


def test_the_run_before_is_kept_once(settings: Settings) -> None:
    for run in ("first", "second", "third"):
        (fresh_folder(settings) / "note").write_text(run)
    previous = settings.folder.with_name("data.previous")
    assert (settings.folder / "note").read_text() == "third"
    assert (previous / "note").read_text() == "second"
    assert sorted(path.name for path in settings.folder.parent.iterdir()) == ["data", "data.previous"]


def test_a_folder_of_somebody_else_is_refused(settings: Settings) -> None:
    settings.folder.mkdir()
    (settings.folder / "events.sqlite").write_text("precious")
    with pytest.raises(SetupError, match="not the demo's"):
        fresh_folder(settings)
    assert (settings.folder / "events.sqlite").read_text() == "precious"


def test_a_neighbour_that_only_bears_the_name_is_not_deleted(settings: Settings) -> None:
    fresh_folder(settings)
    previous = settings.folder.with_name("data.previous")
    previous.mkdir()
    (previous / "photo").write_text("precious")
    with pytest.raises(SetupError, match="not the demo's"):
        fresh_folder(settings)
    assert (previous / "photo").read_text() == "precious"


def test_a_folder_in_use_is_refused(settings: Settings) -> None:
    lock = FolderLock(fresh_folder(settings))
    with pytest.raises(DataFolderInUse):
        fresh_folder(settings)
    lock.release()
    fresh_folder(settings)


def test_a_job_recorded_into_an_old_run_keeps_it_from_deletion(settings: Settings) -> None:
    fresh_folder(settings)
    with EventStore.open(settings) as store:
        event = NewEvent(
            id=uuid7(0, os.urandom), type="state.reported", schema_version=1, stream="job-mine", observed_at_us=0,
            source=Source(recorder=uuid7(1, os.urandom), seq=1, site="https://mine.example"), data=b"{}",
        )  # fmt: skip
        store.append([event]).result(timeout=30)
    fresh_folder(settings)
    with pytest.raises(SetupError, match="job-mine"):
        fresh_folder(settings)
