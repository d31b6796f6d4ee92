"""`make bench-views`: how fast views follow, are rebuilt and look back, on a store of snapshots in a fresh folder.

Reading the store alone is measured beside following it: what is left is the cost of folding.
"""

import argparse
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.table import Row, at_least, at_most, no_less, report
from service.domain.envelope import NewEvent, Source
from service.domain.identifiers import uuid7
from service.projections import Views
from service.projections.metrics import series_as_of
from service.projections.projection import JobAsOf
from service.projections.runner import BATCH_EVENTS, rebuild
from service.queries.responses import encode
from service.settings import Settings
from service.store import EventStore

STREAM, SITE = "job-bench", "https://bench.example"
STAGES = ("waiting", "downloading", "training", "uploading")
START_US = 1_796_000_000_000_000
SMALL_HISTORY = 10_000
POINTS = 100_000


def snapshots(count: int) -> Iterator[NewEvent]:
    """Snapshots of about 500 bytes: one page, every 2 s, a stage change at every fourth, a round every hundredth."""
    recorder = uuid7(START_US, os.urandom)
    for n in range(count):
        now_us = START_US + n * 2_000_000
        execution = {
            "requestedBackend": "auto", "backend": "webgpu", "gpuAvailable": True, "fallbackReason": None, "workers": 1,
            "stage": STAGES[n // 4 % 4], "stageSeq": n // 4, "assignment": {"id": f"a-{n // 16}", "units": 128},
            "computeOnlySamplesPerSecond": 4000,
        }  # fmt: skip
        person = {
            "id": "p1", "local": True, "status": "joined", "lastSeenAt": now_us // 1000, "execution": execution,
        }  # fmt: skip
        settings, state = {"epochs": 12, "aggregation": "FedAvg"}, {"phase": "running", "round": n // 100}
        document = {
            "role": "owner",
            "job": {"id": "bench", "settings": settings, "state": state},
            "participants": [person],
            "checkpoints": [],
        }
        data, source = msgspec.json.encode(document), Source(recorder, n + 1, SITE)
        yield NewEvent(uuid7(now_us, os.urandom), "state.reported", 1, STREAM, now_us, source, data)


def fill(store: EventStore, count: int) -> None:
    """Append that many snapshots, some batches under way at a time."""
    events, waiting = snapshots(count), []
    for start in range(0, count, 500):
        waiting.append(store.append([next(events) for _ in range(min(500, count - start))]))
        if len(waiting) == 50:
            waiting.pop(0).result()
    for done in waiting:
        done.result()


def follow(store: EventStore, views: Views, count: int) -> list[Row]:
    """Catch-up from nothing, in stretches, so that the cost of an event at the start and at the end can be compared."""
    began, costs = time.perf_counter(), list[float]()
    while events := store.read(views.position(), BATCH_EVENTS):
        stretch = time.perf_counter()
        views.apply(events)
        costs.append((time.perf_counter() - stretch) / len(events) * 1e6)
    followed = count / (time.perf_counter() - began)
    began, position = time.perf_counter(), 0
    while events := store.read(position, BATCH_EVENTS):
        position = events[-1].position
    reading = count / (time.perf_counter() - began)
    some = SMALL_HISTORY // BATCH_EVENTS
    early, late = sorted(costs[:some])[some // 2], sorted(costs[-some:])[some // 2]
    return [
        no_less("catch-up", followed, "events/s", 20_000),
        at_least("catch-up", followed, "events/s", beside="reading the store alone", other=reading),
        at_least(f"fold of an event after {count:,}", late, "µs", beside=f"after {SMALL_HISTORY:,}", other=early),
        at_most("cost after a long history / a short one", late / early, "x", 1.2),
    ]


def look_back(store: EventStore, views: Views, count: int) -> list[Row]:
    """The views of the job as of random moments: the nearest fold cache, and the events after it from the store."""
    dice, took = random.Random(1), list[float]()
    for _ in range(500):
        position = dice.randint(1, count)
        began = time.perf_counter()
        with views.reading() as connection:
            views.fold_as_of(connection, STREAM, position, store.read)
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return [Row("as of any moment, p50", took[250], "ms"), at_most("as of any moment, p99", took[494], "ms", 20)]


def rebuilt(store: EventStore, views: Views, settings: Settings, count: int) -> Row:
    began = time.perf_counter()
    rebuild(views, store, settings)
    return no_less("rebuild beside the live views", count / (time.perf_counter() - began), "events/s", 50_000)


def metric_history(views: Views) -> Row:
    """A long series, thinned to 2,000 points and encoded as an answer."""
    rows = [(f"{n:064x}", n, repr(1 / (n + 1)), 1 / (n + 1), n) for n in range(POINTS)]
    with sqlite3.connect(views.path) as connection:
        connection.executemany(
            "INSERT INTO metrics (stream, site, sha256, segment, round, split, name, said, value, is_late, recorder,"
            " position, recorded_us, observed_us)"
            " VALUES ('job-m', 's', ?, 1, ?, 'training', 'loss', ?, ?, 0, 'r', ?, 0, 0)",
            rows,
        )
    connection.close()
    began = time.perf_counter()
    with views.reading() as reading:
        encode(series_as_of(reading, JobAsOf("job-m", "s", POINTS), [], None, 2000)[1])
    return at_most(f"{POINTS:,} metric points, thinned to 2,000", time.perf_counter() - began, "s", 0.3)


def run(count: int, folder: Path) -> list[Row]:
    settings = Settings(data=str(folder), synchronous="NORMAL")
    with EventStore.open(settings) as store, Views.open(settings) as views:
        fill(store, count)
        rows = [*follow(store, views, count), *look_back(store, views, count)]
        return [*rows, rebuilt(store, views, settings, count), metric_history(views)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        return report("views", run(parser.parse_args().events, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
