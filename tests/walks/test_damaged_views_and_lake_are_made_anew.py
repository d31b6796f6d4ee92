"""What can be folded again from the events never stops a start: damaged views or a damaged lake are made anew."""

from collections.abc import Callable
from pathlib import Path

import pytest
from litestar.testing import TestClient

from analytics.lake import FOLDER, Lake, catch_up
from service.app import create_app
from service.settings import Settings
from service.store import EventStore
from tests.ingest.wire import wire_event

BASE_URL = "http://127.0.0.1:7400"


def write_garbage(path: Path) -> None:
    path.write_text("garbage")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


@pytest.fixture
def recorded(settings: Settings) -> Settings:
    """A folder with one event, views, and a sealed lake."""
    app = create_app(settings)
    with TestClient(app, base_url=BASE_URL) as client:
        client.post("/v1/events", json=wire_event(1)).raise_for_status()
        client.get("/v1/questions/run-overview").raise_for_status()

    lake = Lake.open(settings.folder / FOLDER, segment_events=1)
    with EventStore.open(settings, read_only=True) as store:
        catch_up(lake, store.read)
    lake.close()
    return settings


@pytest.mark.parametrize("damage", [write_garbage, cut, Path.unlink])
@pytest.mark.parametrize("name", ["views.sqlite", "lake/lake.json", "lake/events/*.parquet"])
def test_service_starts_and_answers_as_before(recorded: Settings, name: str, damage: Callable[[Path], None]) -> None:
    [path] = recorded.folder.glob(name)
    damage(path)
    with TestClient(create_app(recorded), base_url=BASE_URL) as client:
        [job] = client.get("/v1/jobs", params={"wait_for": 1}).json()["jobs"]
        [row] = client.get("/v1/questions/run-overview").json()["rows"]
    assert (job["id"], row["job"], row["events"]) == ("j1", "j1", 1)
