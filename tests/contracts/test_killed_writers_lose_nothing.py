"""Writers killed at random points, with resends: no loss, nothing twice, the same receipts, a sound log.

`RETRACE_KILL_POINTS=1000` makes it a long run; the default keeps `make test` short.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from service.settings import Settings
from tests.contracts.conftest import POSTGRES
from tests.postgres_server import PostgresServer

KILL_POINTS = int(os.environ.get("RETRACE_KILL_POINTS", "20"))
NOTHING_WRONG = {"lost": 0, "doubled": 0, "gaps": 0, "changed_receipts": 0, "findings": 0, "head_moved": 0}


def kill_writers(settings: Settings, kills: int, writers: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.kill_points", msgspec.json.encode(settings).decode(), str(kills),
         str(writers), "2026"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def check(found: dict[str, int], kills: int) -> None:
    assert {name: found[name] for name in NOTHING_WRONG} == NOTHING_WRONG
    assert found["stored"] >= found["acknowledged"] > 0
    assert found["kills"] >= kills


def test_killed_sqlite_writer_loses_nothing(tmp_path: Path) -> None:
    check(kill_writers(Settings(data=str(tmp_path)), KILL_POINTS, writers=1), KILL_POINTS)


@pytest.mark.parametrize("installation", list(POSTGRES)[:1])
def test_three_processes_on_one_database_lose_nothing_when_any_of_them_dies(
    tmp_path: Path, servers: Callable[[str], PostgresServer], installation: str
) -> None:
    """Whoever is killed may hold the sequence: it lets go of it by dying, and the next one counts on."""
    url = servers(installation).new_database()
    check(kill_writers(Settings(data=str(tmp_path), database_url=url), KILL_POINTS, writers=3), KILL_POINTS)
