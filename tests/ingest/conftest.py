"""The whole service in process, asked through its own client; the data folder is the test's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.settings import Settings
from tests.ingest.wire import wire_event

Client = TestClient[Litestar]
BASE_URL = "http://127.0.0.1:7400"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with TestClient(create_app(settings), base_url=BASE_URL, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def empty_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One service for a whole file whose tests store nothing."""
    folder = tmp_path_factory.mktemp("empty")
    with TestClient(create_app(Settings(data=str(folder))), base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def event() -> dict[str, Any]:
    return wire_event(1)
