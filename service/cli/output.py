"""How commands print: tables for people, JSON for programs. Answers go to stdout, everything else to stderr."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.errors import RetraceError

WIDTH_WITHOUT_TERMINAL = 120
"""Columns of a table that goes to a file or a pipe, unless COLUMNS says otherwise."""
_is_free = not sys.stdout.isatty() and "COLUMNS" not in os.environ
answers = Console(soft_wrap=True, highlight=False, width=WIDTH_WITHOUT_TERMINAL if _is_free else None)
notices = Console(stderr=True, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout, keys in the order given, non-finite numbers already tagged."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on stdout. None is shown as a dash: unavailable, not zero. Nothing is cut off: long cells fold."""
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row))
    answers.print(table)


def _cell(value: object) -> str:
    """One cell: numbers to six digits, tags by their name, text as it is and never as markup."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict) and "non_finite" in value:
        return str(value["non_finite"])
    return escape(str(value))


def print_error(error: RetraceError, as_json: bool) -> None:
    """A refusal on stderr: its sentence and stable code."""
    if as_json:
        document = {"code": error.code, "detail": error.message, **error.details}
        sys.stderr.write(msgspec.json.encode(document).decode() + "\n")
        return
    notices.print(f"retrace: {error.message} \\[{error.code}]", style="red", markup=True)
