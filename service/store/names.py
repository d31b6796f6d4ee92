"""Interned names: streams, event types and sources as small numbers, given by the single writer in its transaction."""

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
