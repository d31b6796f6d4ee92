"""A service over a real store and real views, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.queries.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()
