"""The lake: the history as typed tables. Old rows are in Parquet segments, the newest in memory; a look sees both.

A segment holds the rows of a range of positions, one file per table that has any. `lake.json` lists the segments and is
replaced last and at once, so a crash leaves either the old list or the new one. The lake may be deleted: it is made
anew from the events. It is handed events and knows no store.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from analytics.connection import open_engine
from analytics.rows import Row, Said, rows_of, unreadable
from analytics.said import load_said
from analytics.schema import LAKE_SCHEMA_VERSION, TABLES
from service.domain.envelope import StoredEvent

_log = logging.getLogger(__name__)
FOLDER = "lake"
LIST = "lake.json"
SEGMENT_EVENTS = 50_000
"""Events in memory before they are sealed: a few hundred MB at the most, and segments worth a file."""

CHUNKS_MAX = 32


class Segment(msgspec.Struct, frozen=True):
    """The rows of positions first..last: which tables have a file."""

    first: int
    last: int
    tables: list[str]

    def file(self, table: str) -> str:
        """Path of a table's file, below the lake's folder."""
        return f"{table}/{self.first:012d}-{self.last:012d}.parquet"


class SegmentList(msgspec.Struct, frozen=True):
    """What `lake.json` holds."""

    lake_schema_version: int
    segments: list[Segment]


class Look(NamedTuple):
    """A cursor on the tables, and the position up to which they are complete."""

    cursor: duckdb.DuckDBPyConnection
    position: int


class Lake:
    """All rows up to `position()`. `feed` is for one thread at a time, everything else for any thread."""

    def __init__(self, folder: Path, segments: list[Segment], segment_events: int) -> None:
        """Use `Lake.open`."""
        self.folder = folder
        self._segment_events = segment_events
        self._segments = segments
        self._hot: dict[str, pa.Table] = {name: schema.empty_table() for name, schema in TABLES.items()}
        self._position = segments[-1].last if segments else 0
        self._guard = threading.Condition()
        self._engine = open_engine(folder)
        self._said = load_said(self) if segments else Said()

    @classmethod
    def open(cls, folder: Path, segment_events: int = SEGMENT_EVENTS) -> Self:
        """Open the lake in a folder; empty when there is none, when it is damaged or its tables have another shape."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, _sound_segments(folder), segment_events)

    def position(self) -> int:
        """Every event up to this one is in the tables."""
        return self._position

    def feed(self, events: Sequence[StoredEvent]) -> int:
        """Add events, in position order; those known already are passed by. Returns the new position.

        Raises ValueError for a hole: nothing may be skipped.
        """
        new: list[tuple[StoredEvent, list[tuple[str, Row]]]] = []
        position = self._position
        for stored in events:
            if stored.position <= position:
                continue
            if stored.position != position + 1:
                raise ValueError(f"the lake is at {position} and was given {stored.position}: a hole")
            new.append((stored, list(rows_of(stored, self._said))))
            position = stored.position
        self._add(_tables(new), position)
        if position - self._sealed_to() >= self._segment_events:
            self.seal()
        return position

    def _add(self, tables: dict[str, pa.Table], position: int) -> None:
        with self._guard:
            for name, table in tables.items():
                self._hot[name] = _joined(self._hot[name], table)
            self._position = position
            self._guard.notify_all()

    def wait_for(self, position: int, timeout_s: float) -> bool:
        """Wait until the lake is complete up to a position. False when the time was over first."""
        with self._guard:
            return self._guard.wait_for(lambda: self._position >= position, timeout_s)

    def _sealed_to(self) -> int:
        return self._segments[-1].last if self._segments else 0

    def seal(self) -> None:
        """Write what is in memory as a segment, and list it."""
        if self._position == self._sealed_to():
            return
        with_rows = [name for name, table in self._hot.items() if table.num_rows]
        segment = Segment(self._sealed_to() + 1, self._position, with_rows)
        for name in with_rows:
            _write(self.folder / segment.file(name), self._hot[name])
        segments = [*self._segments, segment]
        _replace(self.folder / LIST, msgspec.json.encode(SegmentList(LAKE_SCHEMA_VERSION, segments)))
        with self._guard:
            self._segments = segments
            self._hot = {name: schema.empty_table() for name, schema in TABLES.items()}

    @contextmanager
    def look(self) -> Iterator["Look"]:
        """Every table as a view of one DuckDB cursor, complete up to one position whatever is fed meanwhile."""
        with self._guard:
            segments, hot, position = list(self._segments), dict(self._hot), self._position
        with self._engine.cursor() as cursor:
            for name, table in hot.items():
                cursor.register(f"hot_{name}", table)
                files = [str(self.folder / segment.file(name)) for segment in segments if name in segment.tables]
                sealed = f"SELECT * FROM read_parquet({_list(files)}) UNION ALL " if files else ""
                cursor.execute(f'CREATE TEMP VIEW "{name}" AS {sealed}SELECT * FROM hot_{name}')
            yield Look(cursor, position)

    def close(self) -> None:
        """Close the engine. What is in memory is made anew from the events at the next start."""
        self._engine.close()


def catch_up(lake: Lake, read: Callable[[int, int], list[StoredEvent]], batch_events: int = 2000) -> int:
    """Feed everything that `read(after, limit)` gives. Returns the lake's position."""
    while events := read(lake.position(), batch_events):
        lake.feed(events)
    return lake.position()


def _tables(found: Sequence[tuple[StoredEvent, list[tuple[str, Row]]]]) -> dict[str, pa.Table]:
    """The rows of several events as tables. An event with a value that no column can hold is set aside by itself."""
    try:
        return _as_tables([row for _, rows in found for row in rows])
    except (pa.ArrowException, OverflowError):
        return _as_tables([row for stored, rows in found for row in _kept(stored, rows)])


def _kept(stored: StoredEvent, rows: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """The rows themselves when the tables can hold them, else one that says why they cannot."""
    try:
        _as_tables(rows)
    except (pa.ArrowException, OverflowError) as error:
        return [*(row for row in rows if row[0] == "events"), ("unreadable", unreadable(stored, str(error)))]
    return rows


def _as_tables(rows: list[tuple[str, Row]]) -> dict[str, pa.Table]:
    by_table: dict[str, list[Row]] = {}
    for name, row in rows:
        by_table.setdefault(name, []).append(row)
    return {name: pa.Table.from_pylist(found, schema=TABLES[name]) for name, found in by_table.items()}


def _joined(before: pa.Table, more: pa.Table) -> pa.Table:
    """Both tables; many small chunks are made one, since each costs a query something."""
    table = pa.concat_tables([before, more])
    return table.combine_chunks() if table.column(0).num_chunks > CHUNKS_MAX else table


def _sound_segments(folder: Path) -> list[Segment]:
    """The listed segments when every file of them is there and has its footer; otherwise none, to begin anew."""
    try:
        known = msgspec.json.decode((folder / LIST).read_bytes(), type=SegmentList)
        if known.lake_schema_version != LAKE_SCHEMA_VERSION:
            return []
        for segment in known.segments:
            for table in segment.tables:
                pq.read_metadata(folder / segment.file(table))
    except FileNotFoundError as error:
        if (folder / LIST).exists():
            _log.warning("%s is not there; the lake is made anew from the events", error.filename or error)
        return []
    except (msgspec.MsgspecError, pa.ArrowException) as error:
        _log.warning("the lake in %s is damaged (%s); it is made anew from the events", folder, error)
        return []
    return known.segments


def _list(files: list[str]) -> str:
    """SQL list of paths; they are made of our folder's name and numbers, and quoted all the same."""
    return "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    pq.write_table(table, part, compression="zstd")
    _sync(part)
    part.replace(path)


def _replace(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(content)
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
