"""Interned names: streams, event types and sources as small numbers, given by the single writer in its transaction.

One class for the writer (numbers by name, new ones added), one for readers (names by number).
"""

from collections.abc import Iterable

import sqlalchemy as sa

from service.store.engine import Database, Row

_CACHE_MAX = 65_536


class InternedNames:
    """Numbers for the names of one table; `key` is the tuple of its name columns.

    Numbers are given by us and not by the database, so that a rollback takes them back and both databases agree.
    """

    def __init__(self, table: sa.Table) -> None:
        self._table = table
        self._columns = [column.name for column in table.columns][1:]
        self._ids: dict[Row, int] = {}

    def resolve(self, database: Database, connection: sa.Connection, keys: Iterable[Row]) -> dict[Row, int]:
        """The number of every key, new ones added to the table."""
        wanted = set(keys)
        if len(self._ids) > _CACHE_MAX:
            self._ids.clear()
        missing = sorted(wanted - self._ids.keys())
        if missing:
            self._load(database, connection, missing)
            self._add(database, connection, [key for key in missing if key not in self._ids])
        return self._ids

    def forget(self) -> None:
        """Drop what is remembered: after a rollback the numbers may never have been stored."""
        self._ids.clear()

    def _load(self, database: Database, connection: sa.Connection, keys: list[Row]) -> None:
        first = self._columns[0]
        statement = f"SELECT id, {', '.join(self._columns)} FROM {self._table.name}"
        for number, *key in database.fetch_by(connection, statement, first, [key[0] for key in keys]):
            self._ids[tuple(key)] = number

    def _add(self, database: Database, connection: sa.Connection, keys: list[Row]) -> None:
        if not keys:
            return
        newest = database.fetch(connection, f"SELECT coalesce(max(id), 0) FROM {self._table.name}")[0][0]
        added = {key: newest + number for number, key in enumerate(keys, 1)}
        database.insert(connection, self._table, [(number, *key) for key, number in added.items()])
        self._ids.update(added)


class NamesById:
    """The other direction, for readers: names by number. A stored name never changes, so what is read may stay."""

    def __init__(self, table: sa.Table) -> None:
        self._statement = f"SELECT {', '.join(column.name for column in table.columns)} FROM {table.name}"
        self._names: dict[int, Row] = {}

    def resolve(self, database: Database, connection: sa.Connection, ids: set[int]) -> dict[int, Row]:
        """The name columns of every number that is stored; what is missing is missing. Safe from several threads."""
        names = self._names if len(self._names) < _CACHE_MAX else {}
        missing = sorted(ids - names.keys())
        if missing:
            rows = database.fetch_by(connection, self._statement, "id", missing)
            names = self._names = names | {row[0]: row[1:] for row in rows}
        return names
