"""Connections to one views file: one that writes, any number that read, and a swap of the file beneath them.

A swap waits until nobody reads or writes, closes all connections (SQLite keeps a `-wal` file beside the main file,
which must never meet another one), moves the new file in place, and lets everybody on.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.projections import schema


class Connections:
    """A small pool. Readers never wait for the writer (WAL); both wait for a swap."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gate = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._busy = 0
        self._is_swapping = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: what it sees stays still."""
        with self._in_transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction, committed at the end; rolled back when the block raises."""
        with self._in_transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _in_transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self._take()
        try:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with self._gate:
            self._gate.wait_for(lambda: not self._is_swapping)
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return schema.open_file(self._path)
        except BaseException:
            with self._gate:
                self._busy -= 1
                self._gate.notify_all()
            raise

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._gate:
            self._busy -= 1
            self._idle.append(connection)
            self._gate.notify_all()

    def swap(self, new: Path) -> None:
        """Put the file `new` in the place of this one."""
        with self._gate:
            self._gate.wait_for(lambda: not self._is_swapping)
            self._is_swapping = True
            self._gate.wait_for(lambda: self._busy == 0)
            try:
                self._close_idle()
                schema.remove_file(self._path)
                os.replace(new, self._path)
            finally:
                self._is_swapping = False
                self._gate.notify_all()

    def close(self) -> None:
        """Close every connection once nobody uses one."""
        with self._gate:
            self._gate.wait_for(lambda: self._busy == 0)
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
