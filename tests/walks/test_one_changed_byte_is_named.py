"""One byte changed behind our back, in an event or an artifact: `retrace verify` names it and ends with 1."""

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.demo.service_process import ServiceProcess
from service.settings import Settings
from tests.ingest.wire import wire_event

Retrace = Callable[..., tuple[int, Any]]
ARTIFACT = b"the bytes of a tokenizer"


@pytest.fixture
def recorded(start: Callable[[], ServiceProcess], settings: Settings) -> Path:
    """A data folder with ten events and one artifact, its service stopped."""
    service = start()
    digest = hashlib.sha256(ARTIFACT).hexdigest()
    with httpx.Client(base_url=service.url, timeout=30) as client:
        client.post("/v1/events", json=[wire_event(number) for number in range(1, 11)]).raise_for_status()
        client.put(f"/v1/artifacts/{digest}?role=tokenizer&job=j1", content=ARTIFACT).raise_for_status()
    service.stop()
    return settings.folder


def test_untouched_record_verifies(recorded: Path, retrace: Retrace) -> None:
    exit_code, report = retrace("verify")
    assert exit_code == 0
    assert report["findings"] == []
    assert report["artifacts"] == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET data_sha256 = x'00' || substr(data_sha256, 2) WHERE position = 7",
        "UPDATE events SET observed_at_us = observed_at_us + 1 WHERE position = 7",
        "UPDATE events SET seq = seq + 100 WHERE position = 7",
    ],
)
def test_changed_event_is_named_by_its_position(recorded: Path, retrace: Retrace, change: str) -> None:
    with sqlite3.connect(recorded / "events.sqlite") as database:
        database.execute(change)
    database.close()
    exit_code, report = retrace("verify")
    assert exit_code == 1
    assert 7 in {finding["position"] for finding in report["findings"]}


def test_changed_artifact_is_named_by_its_digest(recorded: Path, retrace: Retrace) -> None:
    digest = hashlib.sha256(ARTIFACT).hexdigest()
    kept = next(path for path in (recorded / "artifacts").rglob("*") if path.name == digest)
    kept.chmod(0o600)
    kept.write_bytes(ARTIFACT.replace(b"t", b"T", 1))
    exit_code, report = retrace("verify")
    assert exit_code == 1
    assert digest in {finding["sha256"] for finding in report["findings"]}


def test_missing_artifact_is_named_by_its_digest(recorded: Path, retrace: Retrace) -> None:
    digest = hashlib.sha256(ARTIFACT).hexdigest()
    next(path for path in (recorded / "artifacts").rglob("*") if path.name == digest).unlink()
    exit_code, report = retrace("verify")
    assert exit_code == 1
    assert digest in {finding["sha256"] for finding in report["findings"]}
