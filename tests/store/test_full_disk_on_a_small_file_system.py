"""A disk that is really full: a small tmpfs. Needs the right to mount; says so where there is none."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.audit.verify import verify_folder
from service.domain.envelope import NewEvent
from service.errors import StoreUnavailable
from service.settings import Settings
from service.store import EventStore
from tests.event_builders import new_events


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", tmp_path], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this machine does not allow a tmpfs: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def fill_until_refused(store: EventStore, batches: list[list[NewEvent]]) -> tuple[int, StoreUnavailable]:
    """The last position acknowledged before the disk was full, and the refusal."""
    acknowledged = 0
    for batch in batches:
        try:
            acknowledged = store.append(batch).result(timeout=60)[-1].position
        except StoreUnavailable as refusal:
            return acknowledged, refusal
    raise AssertionError("the disk never got full")


def test_acknowledged_events_survive_a_full_disk_and_the_rest_is_refused(small_disk: Path) -> None:
    settings = Settings(data=str(small_disk / "data"))
    with EventStore.open(settings) as store:
        batches = [new_events(100, data=os.urandom(400).hex()) for _ in range(60)]
        acknowledged, refusal = fill_until_refused(store, batches)
        assert refusal.details["retry_after_s"] > 0
        assert 0 < acknowledged == store.head()
        assert [event.position for event in store.read(limit=10_000)] == list(range(1, acknowledged + 1))
        subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
        for batch in batches:
            store.append(batch).result(timeout=60)
        assert store.head() == 6000
    report = verify_folder(settings)
    assert report.is_sound
    assert report.events == 6000
