"""How an answer leaves: rows as JSON values, NDJSON, CSV, Arrow or Parquet, by our own encoder.

NaN and infinities become tags, moments RFC 3339 UTC, NULL stays null. CSV cells that a spreadsheet would run as a
formula get a leading apostrophe.
"""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from service.domain.facts import tag_number
from service.domain.times import US_PER_S, format_us

FORMATS = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
"""Formats and their media types."""
SAFE_INTEGER = 2**53 - 1
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_encode = msgspec.json.Encoder().encode


def rows(table: pa.Table) -> Iterator[list[Any]]:
    """Rows as JSON values, in the table's order."""
    for batch in table.to_batches():
        columns = [[json_value(item) for item in column.to_pylist()] for column in batch.columns]
        yield from (list(row) for row in zip(*columns, strict=True))


def json_value(value: Any) -> Any:
    """A value as JSON has it: integers beyond 2^53-1 as strings, non-finite numbers as tags, moments as text."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return tag_number(value)
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INTEGER else str(value)
    if isinstance(value, datetime):
        return format_us(round(value.timestamp() * US_PER_S))
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    return str(value)


def write_answer(table: pa.Table, name: str) -> Iterator[bytes]:
    """The table in a format of FORMATS, in pieces. `json` is the rows alone, as a list of objects."""
    yield from _WRITERS[name](table)


def _write_json(table: pa.Table) -> Iterator[bytes]:
    yield b"["
    for number, row in enumerate(rows(table)):
        yield (b",\n" if number else b"\n") + _encode(dict(zip(table.column_names, row, strict=True)))
    yield b"\n]\n"


def _write_ndjson(table: pa.Table) -> Iterator[bytes]:
    for row in rows(table):
        yield _encode(dict(zip(table.column_names, row, strict=True))) + b"\n"


def _write_csv(table: pa.Table) -> Iterator[bytes]:
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\r\n")
    for row in [table.column_names, *rows(table)]:
        writer.writerow([_csv_cell(cell) for cell in row])
        yield page.getvalue().encode()
        page.seek(0)
        page.truncate()


def _csv_cell(cell: Any) -> Any:
    if cell is None:
        return ""
    if isinstance(cell, dict) and "non_finite" in cell:
        return cell["non_finite"]
    if isinstance(cell, dict | list):
        return _encode(cell).decode()
    return "'" + cell if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _write_arrow(table: pa.Table) -> Iterator[bytes]:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    yield sink.getvalue()


def _write_parquet(table: pa.Table) -> Iterator[bytes]:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    yield sink.getvalue()


_WRITERS = {
    "json": _write_json,
    "ndjson": _write_ndjson,
    "csv": _write_csv,
    "arrow": _write_arrow,
    "parquet": _write_parquet,
}
