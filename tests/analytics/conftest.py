"""A lake for each test, and the way to ask it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics.answers import rows
from analytics.lake import Lake
from analytics.questions import ask, find_question
from tests.analytics.history import History

Asking = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake.open(tmp_path / "lake")
    yield lake
    lake.close()


@pytest.fixture
def asked(lake: Lake, history: History) -> Asking:
    """Feeds the history and answers a question, rows as objects."""

    def answer(name: str, **parameters: str) -> list[dict[str, Any]]:
        lake.feed(history.events)
        return answer_of(lake, name, **parameters)

    return answer


def answer_of(lake: Lake, name: str, **parameters: str) -> list[dict[str, Any]]:
    """The rows of an answer as objects, values as JSON has them."""
    table = ask(find_question(name), parameters, lake).table
    return [dict(zip(table.column_names, row, strict=True)) for row in rows(table)]
