"""A real service in a process of its own, and the command line beside it: what a user runs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.demo.service_process import ServiceProcess
from service.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[[], ServiceProcess]]:
    """Starts the service on the test's data folder and waits for its door; it may be called again after a kill."""
    started: list[ServiceProcess] = []

    def start_service() -> ServiceProcess:
        settings.folder.mkdir(exist_ok=True)
        service = ServiceProcess(settings)
        started.append(service)
        service.wait_until_ready()
        return service

    yield start_service
    for service in started:
        service.__exit__(None, None, None)


@pytest.fixture
def retrace(settings: Settings) -> Callable[..., tuple[int, Any]]:
    """Runs `retrace WORDS… --data … --json` and gives its exit code and the document it printed."""

    def run(*words: str) -> tuple[int, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", *words, "--data", settings.data, "--json"],
            capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return run
