"""The views of one process: their file, the one writer that folds events into it, and readers beside it.

All views move together: one batch of events, its rows and its progress are one transaction. In memory is only what can
be loaded again: live folds, recorder runs, known checkpoints. When a transaction fails the memory is dropped.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from service.domain.envelope import StoredEvent
from service.domain.times import Clock, system_clock
from service.projections import coverage, schema
from service.projections.batch import Batch, Memory
from service.projections.connections import Connections
from service.projections.fold_cache import ReadEvents, load_as_of
from service.projections.streams import StreamFold
from service.projections.thresholds import thresholds_of
from service.settings import Settings

FILE_NAME = "views.sqlite"


class Views:
    """Folded views with their progress. `apply` is for one thread at a time, everything else for any thread."""

    def __init__(self, path: Path, settings: Settings, clock: Clock) -> None:
        """Use `Views.open`."""
        self.path = path
        self._clock = clock
        self.thresholds = thresholds_of(settings)
        self.moved_us = clock()
        """When the views last moved, or were opened."""
        self._writing = threading.Lock()
        self._moved = threading.Condition()
        self._connections = Connections(path)
        self._memory = Memory()
        with self._connections.reading() as connection:
            self._progress = coverage.load(connection)

    @classmethod
    def open(cls, settings: Settings, clock: Clock = system_clock, path: Path | None = None) -> Self:
        """Open the views of the data folder, empty when there are none or when they were folded by other code."""
        path = path or settings.folder / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        schema.prepare(path)
        return cls(path, settings, clock)

    def position(self) -> int:
        """Every event up to this one is in the views."""
        return self._progress.position

    def progress(self) -> coverage.Progress:
        """How far the views are, with the digest of what was folded (`coverage.digest_of` gives the same)."""
        return self._progress

    def apply(self, events: Sequence[StoredEvent]) -> int:
        """Fold events in, in position order, in one transaction. Events folded before are passed by.

        Returns the new position. Raises ValueError for a hole: nothing may be skipped.
        """
        with self._writing:
            try:
                self._apply(events)
            except BaseException:
                self._memory = Memory()
                raise
        with self._moved:
            self._moved.notify_all()
        return self.position()

    def _apply(self, events: Sequence[StoredEvent]) -> None:
        with self._connections.writing() as connection:
            batch = Batch(connection, self._memory, self.thresholds)
            progress = self._progress
            for stored in events:
                if stored.position <= progress.position:
                    continue
                progress = coverage.advance(progress, stored)
                batch.fold(stored)
            moved_us = self._clock()
            if progress is not self._progress:
                batch.store(coverage.store(progress, moved_us))
        self._progress, self.moved_us = progress, moved_us

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While this lasts nothing is applied; readers are answered."""
        with self._writing:
            yield

    def take_over(self, other: Path) -> None:
        """Put the closed views file `other` in the place of this one. Only while standing still."""
        self._connections.swap(other)
        self._memory = Memory()
        with self._connections.reading() as connection:
            self._progress = coverage.load(connection)
        with self._moved:
            self._moved.notify_all()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one consistent state of all views."""
        with self._connections.reading() as connection:
            yield connection

    def fold_as_of(
        self, connection: sqlite3.Connection, stream: str, up_to: int, read: ReadEvents
    ) -> StreamFold | None:  # fmt: skip
        """The state views of a stream as they stood at a position; None when the stream had no event yet."""
        return load_as_of(connection, stream, up_to, read, self.thresholds)

    def wait_for(self, position: int, timeout_s: float) -> int:
        """Block until the views have reached `position` or `timeout_s` is over. Returns where they are."""
        with self._moved:
            self._moved.wait_for(lambda: self.position() >= position, timeout_s)
        return self.position()

    def close(self) -> None:
        """Close the file once readers are done."""
        with self._writing:
            self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
