"""The command view: each command that was called, and how it returned. Rows; a return never changes a job's state.

Call and return meet by the id of the called event (the return's `causation_id`), in whichever order they arrive. A
return whose call was lost stays a row of its own.
"""

import sqlite3
from typing import Any

import msgspec

from service.domain.events import COMMAND_CALLED, COMMAND_RETURNED, CommandCalled, CommandReturned
from service.domain.facts import MISSING, Fact
from service.domain.times import format_us
from service.projections.projection import Change, JobAsOf, Observed

NAME = "commands"

_CALLED = """INSERT INTO commands (called_id, stream, site, recorder, name, first_position, called_position, called_us,
 observed_us, arguments) VALUES (?,?,?,?,?,?,?,?,?,?)
 ON CONFLICT (called_id) DO UPDATE SET called_position = excluded.called_position, called_us = excluded.called_us,
 observed_us = excluded.observed_us, arguments = excluded.arguments"""
_RETURNED = """INSERT INTO commands (called_id, stream, site, recorder, name, first_position, returned_position,
 returned_us, outcome, duration_ms, error_code, error_message) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
 ON CONFLICT (called_id) DO UPDATE SET returned_position = excluded.returned_position,
 returned_us = excluded.returned_us, outcome = excluded.outcome, duration_ms = excluded.duration_ms,
 error_code = excluded.error_code, error_message = excluded.error_message"""
_SELECT = """SELECT called_id, name, recorder, first_position, called_position, called_us, observed_us, arguments,
 returned_position, returned_us, outcome, duration_ms, error_code, error_message FROM commands
 WHERE stream = ? AND site = ? AND first_position > ? AND first_position <= ?"""


def fold(observed: Observed) -> list[Change]:
    """The rows of one command event."""
    event = observed.event
    if event.type == COMMAND_CALLED:
        called = observed.data_as(CommandCalled)
        return [(_CALLED, (*_row_key(observed, event.id, called.name), observed.position, observed.recorded_at_us,
                           event.observed_at_us, msgspec.json.encode(called.arguments).decode()))]  # fmt: skip
    if event.type == COMMAND_RETURNED:
        returned = observed.data_as(CommandReturned)
        return [(_RETURNED, (*_row_key(observed, event.causation_id or event.id, returned.name), observed.position,
                             observed.recorded_at_us, returned.outcome, returned.duration_ms,
                             returned.error_code, returned.error_message))]  # fmt: skip
    return []


def _row_key(observed: Observed, called_id: str, name: str) -> tuple[Any, ...]:
    event = observed.event
    return called_id, event.stream, event.source.site, event.source.recorder, name, observed.position


def commands_as_of(
    connection: sqlite3.Connection, job: JobAsOf, after: int, limit: int, outcome: str | None = None
) -> list[dict[str, Any]]:  # fmt: skip
    """Commands first heard of in (after, job.up_to], oldest first, each as it stood at `job.up_to`.

    `outcome` keeps `ok`, `error` or `open` (not returned yet).
    """
    words: dict[str | None, str] = {
        None: "",
        "open": " AND (returned_position IS NULL OR returned_position > ?)",
        "ok": " AND outcome = 'ok' AND returned_position <= ?",
        "error": " AND outcome = 'error' AND returned_position <= ?",
    }
    parameters = [job.stream, job.site, after, job.up_to, *([job.up_to] if outcome else []), limit]
    rows = connection.execute(f"{_SELECT}{words[outcome]} ORDER BY first_position LIMIT ?", parameters)
    return [_command(row, job.up_to) for row in rows]


def _command(row: tuple[Any, ...], up_to: int) -> dict[str, Any]:
    (called_id, name, recorder, first, called_at, called_us, observed_us, arguments,
     returned_at, returned_us, outcome, duration_ms, error_code, error_message) = row  # fmt: skip
    has_called = called_at is not None and called_at <= up_to
    has_returned = returned_at is not None and returned_at <= up_to
    return {
        "id": called_id,
        "name": name,
        "recorder": recorder,
        "position": first,
        "called_position": called_at if has_called else None,
        "called_at": format_us(called_us) if has_called else None,
        "observed_at": format_us(observed_us) if has_called else None,
        "arguments": msgspec.Raw(arguments.encode()) if has_called else None,
        "returned_position": returned_at if has_returned else None,
        "returned_at": format_us(returned_us) if has_returned else None,
        "outcome": outcome if has_returned else "open",
        "duration_ms": _duration(duration_ms, returned_at) if has_returned else Fact(None, "not returned yet"),
        "error": {"code": error_code, "message": error_message} if has_returned and outcome == "error" else None,
    }


def _duration(duration_ms: float | None, position: int) -> Fact:
    return Fact(duration_ms, None if duration_ms is not None else MISSING, position)
