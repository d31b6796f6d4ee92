"""The document view: events that are shown as they came, as nobody published what is in them.

Saved-job summaries, storage inventory and recording demos have no published schema: rows only say where each stands,
and the answer holds the bytes. Events of unknown type are counted by name and passed by.
"""

import sqlite3
from typing import NamedTuple

from service.domain.events import DEMOS_REPORTED, KNOWN_TYPES, SAVED_JOBS_REPORTED, STORAGE_REPORTED
from service.projections.projection import Change, Observed

NAME = "documents"
KINDS = {"saved-jobs": SAVED_JOBS_REPORTED, "storage": STORAGE_REPORTED, "demos": DEMOS_REPORTED}
"""Event type of each kind of document."""

_SHOWN = "INSERT OR IGNORE INTO documents (position, type, stream, site, recorder) VALUES (?,?,?,?,?)"
_TYPES = frozenset(KINDS.values())


class Asked(NamedTuple):
    """Which documents: their type, and whose (None: of every site)."""

    event_type: str
    site: str | None


def fold(observed: Observed) -> list[Change]:
    """The row of an event that is shown as it came."""
    event = observed.event
    if event.type in KNOWN_TYPES and event.type not in _TYPES:
        return []
    return [(_SHOWN, (observed.position, event.type, event.stream, event.source.site, event.source.recorder))]


def positions_as_of(connection: sqlite3.Connection, asked: Asked, after: int, up_to: int, limit: int) -> list[int]:
    """Positions of documents in (after, up_to], oldest first."""
    statement = """SELECT position FROM documents WHERE type = ? AND (site = ? OR ? IS NULL) AND position > ?
     AND position <= ? ORDER BY position LIMIT ?"""
    parameters = (asked.event_type, asked.site, asked.site, after, up_to, limit)
    return [position for (position,) in connection.execute(statement, parameters)]


def unknown_types(connection: sqlite3.Connection, stream: str, up_to: int) -> dict[str, int]:
    """How many events of each type that this code does not know a stream has."""
    marks = ",".join("?" * len(_TYPES))
    statement = f"""SELECT type, count(*) FROM documents WHERE stream = ? AND position <= ? AND type NOT IN ({marks})
     GROUP BY type ORDER BY type"""
    return dict(connection.execute(statement, (stream, up_to, *sorted(_TYPES))).fetchall())
