"""How commands print: tables for people, JSON for programs. Answers go to stdout, everything else to stderr."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from service.errors import RetraceError

answers = Console(soft_wrap=True, highlight=False)
notices = Console(stderr=True, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout, keys in the order given, non-finite numbers already tagged."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on stdout. None is shown as a dash: unavailable, not zero."""
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    answers.print(table)


def print_error(error: RetraceError, as_json: bool) -> None:
    """A refusal on stderr: its sentence and stable code."""
    if as_json:
        document = {"code": error.code, "detail": error.message, **error.details}
        sys.stderr.write(msgspec.json.encode(document).decode() + "\n")
        return
    notices.print(f"retrace: {error.message} \\[{error.code}]", style="red", markup=True)
