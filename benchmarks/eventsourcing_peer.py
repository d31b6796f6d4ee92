# mypy: disable-error-code="misc,untyped-decorator"
"""Python's `eventsourcing` doing the store benchmark's work: its own SQLite module, its own defaults (WAL, FULL)."""

import threading
import time

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

TEXT = "x" * 480


class Job(Aggregate):
    """An aggregate with one event of about 500 bytes."""

    @event("Reported")
    def report(self, data: str) -> None:
        """One report."""
        self.data = data


class Peer:
    """One application on one SQLite file."""

    def __init__(self, path: str) -> None:
        self._app = Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path})
        self._job = Job()
        self._app.save(self._job)

    def singles(self, producers: int, count: int) -> float:
        """Events per second of so many threads that each save one event at a time to an aggregate of their own."""

        def produce() -> None:
            job = Job()
            for _ in range(count):
                job.report(TEXT)
                self._app.save(job)

        threads = [threading.Thread(target=produce) for _ in range(producers)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return producers * count / (time.perf_counter() - began)

    def batches(self, count: int, size: int) -> float:
        """Events per second of one sender that saves batches."""
        began = time.perf_counter()
        for _ in range(count):
            for _ in range(size):
                self._job.report(TEXT)
            self._app.save(self._job)
        return count * size / (time.perf_counter() - began)

    def read_all(self) -> float:
        """Events per second of reading one aggregate's events as objects."""
        began = time.perf_counter()
        count = sum(1 for _ in self._app.events.get(self._job.id))
        return count / (time.perf_counter() - began)
