"""A recorder on a wire to a whole service in process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.settings import Settings
from tests.recording.wire import Wire

URL = "http://127.0.0.1:7400"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient[Litestar]]:
    with TestClient(create_app(Settings(data=str(tmp_path))), base_url=URL) as client:
        yield client


@pytest.fixture
def wire(client: TestClient[Litestar]) -> Wire:
    return Wire(client)
