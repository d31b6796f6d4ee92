"""The single writer: one thread that takes what waits, has it sequenced, commits it and answers. Group commit.

While one group is being synced to disk the next one gathers in the queue, so durability costs one sync for many
requests and no timer is needed. An answer is given only after the commit.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import sqlalchemy as sa

from service.domain.envelope import NewEvent, Receipt
from service.domain.times import Clock
from service.errors import Unavailable
from service.store.engine import Database
from service.store.erase import Erasure
from service.store.requests import AppendRequest, RequestQueue, WorkRequest, prepare
from service.store.sequence import Outcome, Sequencer

_log = logging.getLogger(__name__)


class Writer:
    """Owns the write connection and the sequencer. `on_commit` gets the newest position after each group."""

    def __init__(
        self, database: Database, clock: Clock, queue: RequestQueue, on_commit: Callable[[int], None]
    ) -> None:  # fmt: skip
        self._database = database
        self._queue = queue
        self._on_commit = on_commit
        self._sequencer = Sequencer(database, clock)
        self._thread = threading.Thread(target=self._run, name="retrace-writer", daemon=True)
        self._thread.start()

    def append(self, events: Sequence[NewEvent], expected_version: int | None) -> "Future[list[Receipt]]":
        """Queue a batch. See EventStore.append."""
        request = prepare(events, expected_version)
        if not request.items:
            request.future.set_result([])
            return request.future
        self._queue.put(request)
        return request.future

    def transact(self, work: Callable[[sa.Connection], Any]) -> "Future[Any]":
        """Queue work that runs in a write transaction of its own, in order with the appends."""
        request = WorkRequest(work)
        self._queue.put(request)
        return request.future

    def erase(self, erasures: Sequence[Erasure], event: NewEvent) -> "Future[list[Receipt]]":
        """Queue an erasure. See EventStore.erase."""
        request = prepare([event], None)
        return self.transact(lambda connection: self._sequencer.erase(connection, erasures, request))

    def close(self) -> None:
        """Answer what waits, then stop."""
        self._queue.close()
        self._thread.join()

    def _run(self) -> None:
        while group := self._queue.take_group():
            # A sender that went away has cancelled its future; from here on it can no longer be cancelled.
            wanted = [request for request in group if request.future.set_running_or_notify_cancel()]
            appends = [request for request in wanted if isinstance(request, AppendRequest)]
            for request in wanted:
                if isinstance(request, WorkRequest):
                    self._do_work(request)
            if appends:
                self._append(appends)
            self._queue.done(group)

    def _do_work(self, request: WorkRequest) -> None:
        try:
            with self._database.writing() as connection:
                result = request.work(connection)
        except Exception as error:
            self._sequencer.forget()
            request.future.set_exception(error)
            return
        self._on_commit(self._sequencer.position)
        request.future.set_result(result)

    def _append(self, group: Sequence[AppendRequest]) -> None:
        try:
            outcomes = self._commit(group)
        except Unavailable as error:
            _fail(group, error)
        except Exception as error:
            self._append_apart(group, error)
        else:
            for request, outcome in zip(group, outcomes, strict=True):
                _answer(request, outcome)

    def _append_apart(self, group: Sequence[AppendRequest], error: Exception) -> None:
        """An error that we did not foresee: try each request alone, so that only the one at fault fails."""
        if len(group) == 1:
            _log.error("an append failed", exc_info=error)
            _fail(group, error)
            return
        for request in group:
            self._append([request])

    def _commit(self, group: Sequence[AppendRequest]) -> list[Outcome]:
        try:
            with self._database.writing() as connection:
                outcomes = self._sequencer.append(connection, group)
        except BaseException:
            self._sequencer.forget()
            raise
        self._on_commit(self._sequencer.position)
        return outcomes


def _answer(request: AppendRequest, outcome: Outcome) -> None:
    if isinstance(outcome, Exception):
        request.future.set_exception(outcome)
    else:
        request.future.set_result(outcome)


def _fail(group: Sequence[AppendRequest], error: Exception) -> None:
    for request in group:
        request.future.set_exception(error)
