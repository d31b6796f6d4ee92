"""Events that a view could not apply: kept in the store as they are, named here with the reason, and passed by."""

import sqlite3
from typing import Any

from service.projections.projection import ATTEMPTS, Change, Failure, Observed

_STORE = """INSERT OR IGNORE INTO quarantine (position, view, stream, event_type, reason, attempts)
 VALUES (?,?,?,?,?,?)"""


def store(failure: Failure, observed: Observed) -> Change:
    """The row of a failure."""
    event = observed.event
    return _STORE, (observed.position, failure.view, event.stream, event.type, failure.reason, ATTEMPTS)


def incomplete_since(connection: sqlite3.Connection, stream: str, up_to: int) -> int | None:
    """Position of the first event of a stream that some view misses; None when none does."""
    statement = "SELECT min(position) FROM quarantine WHERE stream = ? AND position <= ?"
    found: int | None = connection.execute(statement, (stream, up_to)).fetchone()[0]
    return found


def quarantined(connection: sqlite3.Connection, stream: str, up_to: int) -> list[dict[str, Any]]:
    """Every event of a stream that some view could not apply, with the reason."""
    statement = """SELECT position, view, event_type, reason, attempts FROM quarantine
     WHERE stream = ? AND position <= ? ORDER BY position, view"""
    return [
        {"position": position, "view": view, "event_type": kind, "reason": reason, "attempts": attempts}
        for position, view, kind, reason, attempts in connection.execute(statement, (stream, up_to))
    ]
