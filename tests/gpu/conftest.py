"""The replay engine with a real adapter, one child for all tests of a module."""

import os
from collections.abc import Iterator

import pytest

from service.replay import ReplayEngine
from service.settings import Settings

WALL_S = 20.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayEngine]:
    """A warm engine; the test is skipped where there is no adapter, where RETRACE_REQUIRE_ADAPTER=1 makes it fail."""
    folder = tmp_path_factory.mktemp("replay")
    opened = ReplayEngine(Settings(data=str(folder), replay_wall_s=WALL_S))
    reason = opened.adapters().gpu_reason
    if reason is not None:
        opened.close()
        assert os.environ.get("RETRACE_REQUIRE_ADAPTER") != "1", reason
        pytest.skip(reason)
    yield opened
    opened.close()
