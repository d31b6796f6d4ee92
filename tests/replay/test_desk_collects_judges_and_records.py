"""The replay desk over a real store, archive and views: from a request to the verdict in the record."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.artifacts.archive import Archive
from service.domain.events import REPLAY_JUDGED, REPLAY_REQUESTED, ReplayRequested
from service.domain.identifiers import uuid7
from service.ingest.archiving import Archiving, read_label
from service.ingest.translate import ServiceRun
from service.projections import Views
from service.projections.runner import catch_up
from service.replay import ReplayEngine, ReplayJob
from service.replaying import Desk
from service.settings import Settings
from service.store import EventStore
from tests.replay.package import demo_job

STREAM = "job-j1"
COMMAND = (sys.executable, "-m", "service.replay.child", "--without-gpu", "not in this test")


class Record:
    """A service without its doors: archive bytes, ask, judge, read the verdict."""

    def __init__(self, folder: Path) -> None:
        self.now_us = 1_796_000_000_000_000
        settings = Settings(data=str(folder))
        self.store = EventStore.open(settings, self.clock)
        self.views = Views.open(settings, self.clock)
        self.archive = Archive.open(settings)
        self.run = ServiceRun(self.clock, os.urandom)
        self.archiving = Archiving(self.archive, self.store, self.run)
        self.engine = ReplayEngine(settings, command=COMMAND)
        self.desk = Desk(self.store, self.archive, self.views, self.run, self.engine)

    def clock(self) -> int:
        return self.now_us

    def keep(self, role: str, data: bytes | None) -> None:
        assert data is not None
        self.archiving.record(self.archive.put(data), read_label(role, "j1", None))

    def keep_all(self, job: ReplayJob, *, without: str = "") -> None:
        parts = {
            "module": job.module, "shader-archive": job.shader_archive, "wasm": job.wasm,
            "validation": job.validation, "checkpoint": job.checkpoint,
        }  # fmt: skip
        for role, data in parts.items():
            if role != without:
                self.keep(role, data)

    def ask(self, sha256: str, engine: str = "auto") -> str:
        replay_id = uuid7(self.clock(), os.urandom)
        event = self.run.event(REPLAY_REQUESTED, STREAM, ReplayRequested(replay_id, sha256, engine, 1))
        self.store.append([event]).result()
        catch_up(self.views, self.store)
        return replay_id

    def verdicts(self) -> list[dict[str, Any]]:
        events = self.store.read(stream=STREAM)
        return [msgspec.json.decode(e.event.data) for e in events if e.event.type == REPLAY_JUDGED]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    opened = Record(tmp_path)
    yield opened
    opened.desk.close()
    opened.views.close()
    opened.store.close()


def test_a_request_is_judged_once_and_its_verdict_is_in_the_record(record: Record) -> None:
    job = demo_job()
    record.keep_all(job)
    replay_id = record.ask(job.checkpoint_sha256)
    assert record.desk.judge_next()
    assert not record.desk.judge_next(), "the views have not seen the verdict yet, the store has"
    [verdict] = record.verdicts()
    assert (verdict["replay_id"], verdict["verdict"], verdict["round"]) == (replay_id, "reproduced", 1)
    assert verdict["result"]["engine"] == "reference"
    assert verdict["result"]["engine_reason"] == "not in this test"
    assert verdict["result"]["labels"] == {"equal": 24, "of": 24}
    [asked, judged] = record.store.read(stream=STREAM)[-2:]
    assert judged.event.causation_id == asked.event.id


@pytest.mark.parametrize(
    ("missing", "code"),
    [("module", "no_module"), ("validation", "no_validation"), ("checkpoint", "no_checkpoint")],
)
def test_what_is_not_kept_is_named(record: Record, missing: str, code: str) -> None:
    job = demo_job()
    record.keep_all(job, without=missing)
    record.ask(job.checkpoint_sha256)
    assert record.desk.judge_next()
    [verdict] = record.verdicts()
    assert (verdict["verdict"], verdict["result"]["code"]) == ("cannot-run", code)
    assert f"?role={missing}" in verdict["result"]["reason"]


def test_bytes_that_were_changed_in_the_archive_are_refused(record: Record, tmp_path: Path) -> None:
    job = demo_job()
    record.keep_all(job)
    [path] = (tmp_path / "artifacts").rglob(job.checkpoint_sha256 + "*")
    path.chmod(0o644)
    path.write_bytes(job.checkpoint[:-1] + b"\0")
    record.ask(job.checkpoint_sha256)
    assert record.desk.judge_next()
    [verdict] = record.verdicts()
    assert (verdict["verdict"], verdict["result"]["code"]) == ("refused", "corrupt")


def test_a_malformed_checkpoint_is_refused_with_its_reason(record: Record) -> None:
    kept = record.archive.put(b"no checkpoint at all")
    record.archiving.record(kept, read_label("checkpoint", "j1", 1))
    record.ask(kept.sha256)
    assert record.desk.judge_next()
    [verdict] = record.verdicts()
    assert (verdict["verdict"], verdict["result"]["code"]) == ("refused", "malformed_checkpoint")


def test_requests_wait_while_the_engine_is_closed(record: Record) -> None:
    job = demo_job()
    record.keep_all(job)
    record.ask(job.checkpoint_sha256)
    record.desk.close()
    assert not record.desk.judge_next()
    assert record.verdicts() == []


def test_the_newest_validation_set_of_the_job_counts(record: Record) -> None:
    job, newer = demo_job(), demo_job(rows=5)
    record.keep_all(job)
    record.keep("validation", newer.validation)
    record.ask(job.checkpoint_sha256)
    assert record.desk.judge_next()
    [verdict] = record.verdicts()
    assert verdict["result"]["batch"]["rows"] == 5
