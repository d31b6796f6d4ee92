"""One batch of events on its way into the views: routed to each fold, rows written in order, poison set aside.

Everything here happens inside one write transaction. `Memory` holds what folding needs of the past; it is loaded from
the views when missing, so that it may be dropped at any time.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from service.domain.envelope import StoredEvent
from service.domain.events import (
    ARTIFACT_ARCHIVED,
    COMMAND_CALLED,
    COMMAND_RETURNED,
    KNOWN_TYPES,
    REPLAY_JUDGED,
    REPLAY_REQUESTED,
    STATE_REPORTED,
)
from service.domain.identifiers import job_of_stream
from service.projections import archived, checkpoints, commands, documents, metrics, quarantine, recorders, replays
from service.projections.checkpoints import Known
from service.projections.fold_cache import is_due, load_live, store_cache, store_live
from service.projections.projection import Change, Failure, Observed, guarded
from service.projections.recorders import RecorderRun
from service.projections.streams import StreamFold, fold_stream
from service.projections.thresholds import Thresholds

_JOB = "INSERT OR IGNORE INTO jobs (first_position, stream, site) VALUES (?,?,?)"
MEMORY_MAX = 1024
"""How many streams, recorder runs and jobs are kept in memory between batches."""
K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Memory:
    """What folding needs of the past; each part can be loaded from the views."""

    folds: dict[str, StreamFold] = field(default_factory=dict)
    runs: dict[str, RecorderRun] = field(default_factory=dict)
    known: dict[tuple[str, str], Known] = field(default_factory=dict)


class Batch:
    """Folds events one by one and writes their rows. Use it inside one write transaction."""

    def __init__(self, connection: sqlite3.Connection, memory: Memory, thresholds: Thresholds) -> None:
        self._connection = connection
        self._memory = memory
        self._thresholds = thresholds
        self._changes: list[Change] = []
        self._touched_streams: dict[str, None] = {}
        self._touched_runs: dict[str, None] = {}

    def fold(self, stored: StoredEvent) -> None:
        """Give one event to every view that it concerns."""
        observed = Observed(stored)
        failures: list[Failure] = []
        if recorders.is_of_recorder(observed):
            self._fold_recorder(observed, failures)
        if job_of_stream(stored.event.stream) is not None:
            self._fold_stream(observed, failures)
        if not stored.is_erased:
            self._fold_rows(observed, failures)
        if failures:
            self._changes += [quarantine.store(failure, observed) for failure in failures]

    def _fold_recorder(self, observed: Observed, failures: list[Failure]) -> None:
        recorder = observed.event.source.recorder
        run = self._memory.runs.get(recorder) or recorders.load_run(self._connection, recorder)
        folded = guarded(recorders.NAME, lambda: recorders.fold(run, observed), failures)
        if folded is not None:
            self._memory.runs[recorder], changes = folded
            self._changes += changes
            self._touched_runs[recorder] = None

    def _fold_stream(self, observed: Observed, failures: list[Failure]) -> None:
        stream = observed.event.stream
        before = self._memory.folds.get(stream) or load_live(self._connection, stream) or StreamFold()
        folded = fold_stream(before, observed, self._thresholds)
        self._memory.folds[stream] = folded.fold
        self._touched_streams[stream] = None
        failures += folded.failures
        self._changes += folded.changes
        for site in folded.fold.sites.keys() - before.sites.keys():
            self._changes.append((_JOB, (observed.position, stream, site)))
        if is_due(observed.stored.stream_position):
            self._changes.append(store_cache(stream, folded.fold))

    def _fold_rows(self, observed: Observed, failures: list[Failure]) -> None:
        kind = observed.event.type
        if kind == STATE_REPORTED:
            self._fold_checkpoints(observed, failures)
        elif kind in (COMMAND_CALLED, COMMAND_RETURNED):
            self._changes += guarded(commands.NAME, lambda: commands.fold(observed), failures) or []
        elif kind in (REPLAY_REQUESTED, REPLAY_JUDGED):
            self._changes += guarded(replays.NAME, lambda: replays.fold(observed), failures) or []
        elif kind not in KNOWN_TYPES or kind in documents.KINDS.values():
            self._changes += guarded(documents.NAME, lambda: documents.fold(observed), failures) or []
        elif kind == ARTIFACT_ARCHIVED:
            self._changes += guarded(archived.NAME, lambda: archived.fold(observed), failures) or []

    def _fold_checkpoints(self, observed: Observed, failures: list[Failure]) -> None:
        job = (observed.event.stream, observed.event.source.site)
        if job not in self._memory.known:
            self._memory.known[job] = checkpoints.load_known(self._connection, *job)
        folded = guarded(checkpoints.NAME, lambda: checkpoints.fold(self._memory.known[job], observed), failures)
        if folded is not None and folded[0]:
            reported, changes = folded
            self._changes += changes
            self._changes += guarded(metrics.NAME, lambda: metrics.fold(reported, observed), failures) or []

    def store(self, progress: Iterable[Change]) -> None:
        """Write everything that the batch changed, then the progress."""
        self._changes += [recorders.store_run(name, self._memory.runs[name]) for name in self._touched_runs]
        self._changes += [store_live(name, self._memory.folds[name]) for name in self._touched_streams]
        for statement, group in groupby([*self._changes, *progress], key=lambda change: change[0]):
            self._connection.executemany(statement, [values for _, values in group])
        _keep_newest(self._memory.runs)
        _keep_newest(self._memory.folds)
        _keep_newest(self._memory.known)


def _keep_newest(kept: dict[K, V]) -> None:
    """Drop what was loaded longest ago beyond MEMORY_MAX."""
    for name in list(kept)[: max(0, len(kept) - MEMORY_MAX)]:
        del kept[name]
