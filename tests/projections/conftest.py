"""A tape of events and empty views in a folder of their own, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.projections import Views
from service.settings import Settings
from tests.projections.tape import START_US, Tape


@pytest.fixture
def tape() -> Tape:
    return Tape()


@pytest.fixture
def views(tmp_path: Path) -> Iterator[Views]:
    with Views.open(Settings(data=str(tmp_path)), lambda: START_US) as opened:
        yield opened
