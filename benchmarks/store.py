"""`make bench-store`: the event store beside raw SQLite and raw COPY, single appends, sizes, reads, restart, memory.

"Raw" is the driver alone, writing rows of the same table (all columns, both unique indexes) with the payload as it is:
no hashing, no idempotency, no leaves, no compression.
"""

import argparse
import json
import os
import resource
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.table import Row, at_least, at_most, no_less, report
from service.domain.envelope import NewEvent, Source
from service.settings import Settings
from service.store import EventStore
from service.store.schema import events as events_table
from tests.event_builders import state_document
from tests.postgres_server import PostgresServer, installations

BATCH = 500
RECORDER = "0190aaaa-0000-7000-8000-000000000001"
ROUNDS = 3


def event(number: int, data: bytes, recorder: str = RECORDER) -> NewEvent:
    return NewEvent(
        str(uuid.UUID(int=(0x0190_0000_0000_7000_8000 << 48) + number)), "state.reported", 1, "job-bench",
        1_764_565_200_000_000 + number * 1000, Source(recorder, number, "https://lab.example"), data,
    )  # fmt: skip


def small_events(first: int, count: int) -> list[NewEvent]:
    """Events of about 500 bytes, a tenth of it random, as a short snapshot would be."""
    return [
        event(
            number,
            json.dumps({
                "stage": "training", "round": number // 50, "speed": number * 7919 % 997 / 10,
                "assignment": os.urandom(24).hex(),
                "participants": [{"id": f"p{at}", "lastSeenAt": 1_764_565_200_000 + number + at} for at in range(8)],
            }).encode(),
        )
        for number in range(first, first + count)
    ]  # fmt: skip


def raw_rows(batch: list[NewEvent]) -> list[tuple[Any, ...]]:
    return [
        (one.source.seq, uuid.UUID(one.id).bytes, 1, one.source.seq, 1, 1, one.source.seq, 1, one.observed_at_us,
         one.observed_at_us, None, None, bytes(32), len(one.data), None, 0, None, one.data)
        for one in batch
    ]  # fmt: skip


def rate(count: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def sqlite_raw(folder: str, batches: list[list[tuple[Any, ...]]]) -> float:
    EventStore.open(Settings(data=folder)).close()
    connection = sqlite3.connect(f"{folder}/events.sqlite", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16384"):
        connection.execute(f"PRAGMA {pragma}")
    statement = f"INSERT INTO events VALUES ({','.join('?' * len(events_table.columns))})"

    def work() -> None:
        for rows in batches:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, rows)
            connection.execute("COMMIT")

    try:
        return rate(len(batches) * BATCH, work)
    finally:
        connection.close()


def postgres_raw(url: str, folder: str, batches: list[list[tuple[Any, ...]]]) -> float:
    EventStore.open(Settings(data=folder, database_url=url)).close()
    types = ["int8", "bytea", *["int8"] * 8, "text", "text", "bytea", "int8", "bytea", "int2", "int8", "bytea"]

    def work() -> None:
        with psycopg.connect(url) as connection:
            for rows in batches:
                with connection.cursor().copy("COPY events FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(types)
                    for row in rows:
                        copy.write_row(row)
                connection.commit()

    return rate(len(batches) * BATCH, work)


def store_appends(settings: Settings, batches: list[list[NewEvent]]) -> float:
    with EventStore.open(settings) as store:

        def work() -> None:
            # A few requests wait for the writer, as with a few senders: not one at a time, and not all at once.
            waiting = []
            for batch in batches:
                waiting.append(store.append(batch))
                if len(waiting) == 4:
                    waiting.pop(0).result()
            for future in waiting:
                future.result()

        return rate(len(batches) * BATCH, work)


def bulk(count: int) -> Iterator[Row]:
    """Appends in batches of 500, alternating with the raw drivers; the median of three rounds each."""
    batches = [small_events(1 + first, BATCH) for first in range(0, count, BATCH)]
    rows = [raw_rows(batch) for batch in batches]
    pairs = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as raw_folder, tempfile.TemporaryDirectory() as folder:
            pairs.append((sqlite_raw(raw_folder, rows), store_appends(Settings(data=folder), batches)))
    raw, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    yield at_least("SQLite: append 500 x 500 B", ours, "events/s", beside="raw executemany", other=raw, ratio=0.5)
    for name, binaries in list(installations().items())[:1]:
        with PostgresServer(binaries, durable=True) as server, tempfile.TemporaryDirectory() as folder:
            pairs = [
                (
                    postgres_raw(server.new_database(), folder, rows),
                    store_appends(Settings(data=folder, database_url=server.new_database()), batches),
                )
                for _ in range(ROUNDS)
            ]
        raw, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
        yield at_least(
            f"PostgreSQL ({name}): append 500 x 500 B", ours, "events/s", beside="raw binary COPY", other=raw, ratio=0.4
        )


def singles(producers: int, count: int) -> Iterator[Row]:
    """Producers that each send one event and wait for its receipt, synchronous=FULL."""
    latencies: list[float] = []
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as folder, EventStore.open(Settings(data=folder)) as store:
        parts = [small_events(1 + producer * count, count) for producer in range(producers)]

        def produce(part: list[NewEvent]) -> None:
            own = []
            for one in part:
                began = time.perf_counter()
                store.append([one]).result()
                own.append(time.perf_counter() - began)
            with lock:
                latencies.extend(own)

        threads = [threading.Thread(target=produce, args=(part,)) for part in parts]

        def work() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        per_s = rate(producers * count, work)
    latencies.sort()
    yield no_less(f"{producers} producers of single events", per_s, "appends/s", 10_000)
    yield Row("  p50", latencies[len(latencies) // 2] * 1000, "ms")
    yield at_most("  p99", latencies[len(latencies) * 99 // 100] * 1000, "ms", 25)


def beside_bulk(rounds: int) -> Iterator[Row]:
    """Four senders of single events, alone and with one 5,000-event append beside them in each round."""
    medians = []
    for with_bulk in (False, True):
        latencies: list[float] = []
        with tempfile.TemporaryDirectory() as folder, EventStore.open(Settings(data=folder)) as store:
            for number in range(rounds):
                large_batch = small_events(10_000_000 + number * 5000, 5000)
                bulk_append = store.append(large_batch) if with_bulk else None
                senders = [
                    threading.Thread(target=_send_singles, args=(store, 1 + (number * 4 + at) * 100, latencies))
                    for at in range(4)
                ]
                for sender in senders:
                    sender.start()
                for sender in senders:
                    sender.join()
                if bulk_append is not None:
                    bulk_append.result()
        medians.append(statistics.median(latencies))
    alone, beside = (median * 1000 for median in medians)
    yield Row("single append p50 beside a 5,000-event append", beside, "ms", "alone", beside / alone, "<= 2x",
              beside <= 2 * alone)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, EventStore.open(Settings(data=folder)) as store:
        many = small_events(1, 100_000)
        yield Row("one append of 100,000 events", 1 / rate(1, lambda: store.append(many).result()), "s")


def _send_singles(store: EventStore, first: int, latencies: list[float]) -> None:
    for one in small_events(first, 100):
        began = time.perf_counter()
        store.append([one]).result()
        latencies.append(time.perf_counter() - began)


def sizes(name: str, participants: int, recorders: int, steps: int) -> Iterator[Row]:
    """Bytes on disk per event beside the JSON received, everything included: rows, indexes, leaves, tiles."""
    with tempfile.TemporaryDirectory() as folder:
        raw_bytes, number = 0, 0
        with EventStore.open(Settings(data=folder)) as store:
            for step in range(steps):
                batch = []
                for recorder in range(recorders):
                    number += 1
                    batch.append(event(number, state_document(step, participants), f"recorder-{recorder}"))
                raw_bytes += sum(len(one.data) for one in batch)
                store.append(batch).result()
        stored = (Path(folder) / "events.sqlite").stat().st_size
    name = f"{name}: stored beside raw JSON ({raw_bytes / number:,.0f} B/event)"
    yield at_most(name, 100 * stored / raw_bytes, "%", 6)


def beside_eventsourcing(producers: int) -> Iterator[Row]:
    """The same work with Python's `eventsourcing` on SQLite, when it is installed (it is no dependency of ours)."""
    if find_spec("eventsourcing") is None:
        sys.stdout.write("skipped: eventsourcing is not installed (uv pip install eventsourcing==9.5.6)\n")
        return
    from benchmarks.eventsourcing_peer import Peer

    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(f"{folder}/peer.sqlite")
        theirs = {"singles": peer.singles(producers, 10), "batches": peer.batches(20, 100), "read": peer.read_all()}
    with tempfile.TemporaryDirectory() as folder, EventStore.open(Settings(data=folder)) as store:
        ours = {"singles": _durable_singles(store, producers, 100)}
        batches = [small_events(1_000_000 + first, 100) for first in range(0, 20_000, 100)]
        ours["batches"] = rate(20_000, lambda: [store.append(batch).result() for batch in batches])
        ours["read"] = rate(store.head(), lambda: _stream_out(store))
    for name, title, bar in (
        ("singles", f"{producers} producers of durable single appends", 10.0),
        ("batches", "batches of 100, one sender", 2.0),
        ("read", "typed read", 2.0),
    ):
        yield at_least(title, ours[name], "events/s", beside="eventsourcing", other=theirs[name], ratio=bar)


def _durable_singles(store: EventStore, producers: int, count: int) -> float:
    parts = [small_events(1 + number * count, count) for number in range(producers)]

    def produce(part: list[NewEvent]) -> None:
        for one in part:
            store.append([one]).result()

    threads = [threading.Thread(target=produce, args=(part,)) for part in parts]

    def work() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return rate(producers * count, work)


def large(count: int) -> Iterator[Row]:
    """A million events in and out: rate, memory, restart, reads."""
    settings = Settings(data=tempfile.mkdtemp())
    with EventStore.open(settings) as store:
        per_s = rate(count, lambda: _stream_in(store, count))
    yield Row(f"stream {count:,} events in", per_s, "events/s")
    began = time.perf_counter()
    store = EventStore.open(settings)
    store.append(small_events(count + 1, 1)).result()
    yield at_most("restart to first receipt", time.perf_counter() - began, "s", 5)
    yield no_less("sequential read", rate(count, lambda: _stream_out(store)), "events/s", 50_000)
    step = max(1, count // 2000)
    latencies = []
    for position in range(1, count, step):
        began = time.perf_counter()
        store.read_one(position)
        latencies.append(time.perf_counter() - began)
    latencies.sort()
    yield at_most("single read p99", latencies[len(latencies) * 99 // 100] * 1000, "ms", 1)
    store.close()
    yield at_most("peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", 300)


def _stream_in(store: EventStore, count: int) -> None:
    waiting = []
    for first in range(1, count + 1, BATCH):
        waiting.append(store.append(small_events(first, BATCH)))
        if len(waiting) == 8:
            waiting.pop(0).result()
    for future in waiting:
        future.result()


def _stream_out(store: EventStore) -> None:
    after = 0
    while page := store.read(after=after, limit=1000):
        after = page[-1].position


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the large run")
    count: int = parser.parse_args().events
    rows = [
        *large(count),  # first, so that its memory is its own
        *bulk(20_000),
        *singles(64, 300),
        *beside_bulk(20),
        *beside_eventsourcing(64),
        *sizes("6 participants x 30 min, 7 pages", 6, 7, 900),
        *sizes("200 participants x 1 h, owner's page", 200, 1, 1800),
    ]
    return report("store", rows)


if __name__ == "__main__":
    sys.exit(main())
