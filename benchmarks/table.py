"""The form of every benchmark's result: rows with a value beside another one measured in the same run, and a bar.

A machine's absolute numbers are noise to anybody else; a ratio in one run is not. `bar` is what must hold, if anything.
"""

import json
import os
import platform
import sqlite3
import sys
from importlib.metadata import version as installed
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent.parent / "build" / "bench"
_PACKAGES = ("sqlalchemy", "msgspec", "zstandard", "psycopg", "cryptography", "numpy", "duckdb", "litestar")


class Row(msgspec.Struct):
    """One measured number. `ratio` is value / beside's value; the bar holds when it is reached (or kept below)."""

    name: str
    value: float
    unit: str
    beside: str | None = None
    ratio: float | None = None
    bar: str | None = None
    holds: bool | None = None


def at_least(name: str, value: float, unit: str, *, beside: str, other: float, ratio: float | None = None) -> Row:
    """A value and its ratio to another one of this run; `ratio` is the bar, None when there is none."""
    got = value / other
    bar = None if ratio is None else f">= {ratio:g}x"
    return Row(name, value, unit, beside, got, bar, None if ratio is None else got >= ratio)


def at_most(name: str, value: float, unit: str, limit: float) -> Row:
    """A value that must not pass a limit."""
    return Row(name, value, unit, bar=f"<= {limit:g} {unit}", holds=value <= limit)


def no_less(name: str, value: float, unit: str, limit: float) -> Row:
    """A value that must reach a limit."""
    return Row(name, value, unit, bar=f">= {limit:g} {unit}", holds=value >= limit)


def report(bench: str, rows: list[Row]) -> int:
    """Write build/bench/<bench>.json, print the table, and return an exit code: 1 when a bar does not hold."""
    result = {"machine": _machine(), "versions": _versions(), "rows": msgspec.to_builtins(rows)}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{bench}.json").write_text(json.dumps(result, indent=1) + "\n")
    table = Table(title=f"bench {bench}", caption=f"{result['machine']}")
    for heading in ("what", "value", "beside", "ratio", "bar", "holds"):
        table.add_column(heading, justify="left" if heading in {"what", "beside"} else "right")
    for row in rows:
        table.add_row(
            row.name, f"{row.value:,.3g} {row.unit}" if row.value < 1000 else f"{row.value:,.0f} {row.unit}",
            row.beside or "", "" if row.ratio is None else f"{row.ratio:.2f}x", row.bar or "",
            "" if row.holds is None else "yes" if row.holds else "NO",
        )  # fmt: skip
    Console(width=150).print(table)
    return int(any(row.holds is False for row in rows))


def _machine() -> str:
    cpu = next(
        (line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), platform.processor()
    )
    flags = next((line for line in _cpu_lines() if line.startswith("flags")), "")
    sha = "with" if "sha_ni" in flags else "without"
    return f"{os.cpu_count()} x {cpu}, {sha} SHA instructions, load {os.getloadavg()[0]:.1f} before the report"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _versions() -> dict[str, str]:
    found = {package: installed(package) for package in _PACKAGES}
    return {"python": sys.version.split()[0], "sqlite": sqlite3.sqlite_version, **found}
