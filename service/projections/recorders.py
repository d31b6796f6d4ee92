"""The recorder view: each recorder run, what it is, and which of its events are missing.

`seq` counts from 1 without a hole within a run, so a jump is a gap: those events were lost, or are still on their way.
A late arrival closes the gap, leaving smaller ones beside it; the closed gap stays in history. A run whose first event
that we know has seq n > 1 opens with a gap from 1 to n - 1.
"""

import sqlite3
from typing import Any

import msgspec

from service.domain.events import (
    API_CONNECTED,
    API_REPLACED,
    API_UNAVAILABLE,
    RECORDER_STARTED,
    RECORDER_STOPPED,
    RECORDER_THINNED,
    SERVICE_TYPES,
)
from service.domain.times import format_us
from service.projections.projection import Change, JobAsOf, Observed

NAME = "recorders"
LIFE_TYPES = frozenset({
    RECORDER_STARTED, RECORDER_THINNED, RECORDER_STOPPED, API_CONNECTED, API_UNAVAILABLE, API_REPLACED,
})  # fmt: skip
"""What is told of a run's life, beside what it reports."""

_OPEN_GAP = """INSERT OR IGNORE INTO recorder_gaps (recorder, first_seq, last_seq, opened_position, opened_us,
 heard_position, heard_us) VALUES (?,?,?,?,?,?,?)"""
_CLOSE_GAP = """UPDATE recorder_gaps SET closed_position = ?, closed_us = ?
 WHERE recorder = ? AND first_seq = ? AND last_seq = ? AND closed_position IS NULL"""
_HEARD_IN = "INSERT OR IGNORE INTO recorder_streams (stream, recorder, first_position) VALUES (?,?,?)"
_LIFE = "INSERT INTO recorder_life (position, recorder, recorded_at_us, type, data) VALUES (?,?,?,?,?)"
_STORE_RUN = """INSERT OR REPLACE INTO recorder_runs (recorder, site, first_position, run) VALUES (?,?,?,?)"""

Gap = tuple[int, int, int | None, int | None]
"""First and last missing `seq`, then position and time of the last event heard before the hole."""


class RecorderRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a run was heard: its highest `seq`, the open gaps below it, and the streams it spoke in."""

    site: str
    first_position: int
    last_seq: int = 0
    last_position: int | None = None
    last_us: int | None = None
    gaps: tuple[Gap, ...] = ()
    streams: tuple[str, ...] = ()


def fold(run: RecorderRun | None, observed: Observed) -> tuple[RecorderRun, list[Change]]:
    """The run after one of its events; every event of a recorder counts, of whatever type."""
    event, position = observed.event, observed.position
    recorder, seq = event.source.recorder, event.source.seq
    run = run or RecorderRun(event.source.site, position)
    changes: list[Change] = []
    gaps, last_seq, last_heard = run.gaps, run.last_seq, (run.last_position, run.last_us)
    if seq > last_seq:
        if seq > last_seq + 1:
            gaps = (*gaps, (last_seq + 1, seq - 1, run.last_position, run.last_us))
            changes.append(_opened(recorder, gaps[-1], observed))
        last_seq, last_heard = seq, (position, observed.recorded_at_us)
    else:
        gaps, narrowed = _narrowed(gaps, seq, recorder, observed)
        changes += narrowed
    streams = run.streams
    if event.stream not in streams:
        streams = (*streams, event.stream)
        changes.append((_HEARD_IN, (event.stream, recorder, position)))
    if event.type in LIFE_TYPES:
        changes.append(
            (_LIFE, (position, recorder, observed.recorded_at_us, event.type, event.data.decode() or "null"))
        )
    return RecorderRun(run.site, run.first_position, last_seq, *last_heard, gaps, streams), changes


def is_of_recorder(observed: Observed) -> bool:
    """Whether a recorder made this event; what the service makes is no evidence about a page."""
    return observed.event.type not in SERVICE_TYPES


def _opened(recorder: str, gap: Gap, observed: Observed) -> Change:
    return _OPEN_GAP, (recorder, *gap[:2], observed.position, observed.recorded_at_us, *gap[2:])


def _narrowed(
    gaps: tuple[Gap, ...], seq: int, recorder: str, observed: Observed
) -> tuple[tuple[Gap, ...], list[Change]]:  # fmt: skip
    hit = next((gap for gap in gaps if gap[0] <= seq <= gap[1]), None)
    if hit is None:
        return gaps, []
    parts = ((hit[0], seq - 1, *hit[2:]), (seq + 1, *hit[1:]))
    rest = tuple(gap for gap in parts if gap[0] <= gap[1])
    closed: Change = _CLOSE_GAP, (observed.position, observed.recorded_at_us, recorder, *hit[:2])
    kept = tuple(sorted((*(gap for gap in gaps if gap != hit), *rest), key=lambda gap: gap[0]))
    return kept, [closed, *(_opened(recorder, gap, observed) for gap in rest)]


def store_run(recorder: str, run: RecorderRun) -> Change:
    """The row from which folding goes on after a restart."""
    return _STORE_RUN, (recorder, run.site, run.first_position, msgspec.json.encode(run).decode())


def load_run(connection: sqlite3.Connection, recorder: str) -> RecorderRun | None:
    """The run as far as it was folded."""
    for (run,) in connection.execute("SELECT run FROM recorder_runs WHERE recorder = ?", (recorder,)):
        return msgspec.json.decode(run, type=RecorderRun)
    return None


def recorders_as_of(connection: sqlite3.Connection, job: JobAsOf) -> list[dict[str, Any]]:
    """The recorder runs heard in a job, with their life and gaps as they stood then."""
    statement = """SELECT s.recorder, s.first_position, r.site, r.first_position FROM recorder_streams s
     JOIN recorder_runs r ON r.recorder = s.recorder
     WHERE s.stream = ? AND r.site = ? AND s.first_position <= ? ORDER BY s.first_position"""
    rows = connection.execute(statement, job).fetchall()
    return [_recorder(connection, row, job.up_to) for row in rows]


def _recorder(connection: sqlite3.Connection, row: tuple[Any, ...], up_to: int) -> dict[str, Any]:
    recorder, heard_position, site, first_position = row
    life = connection.execute(
        "SELECT position, recorded_at_us, type, data FROM recorder_life WHERE recorder = ? AND position <= ?"
        " ORDER BY position",
        (recorder, up_to),
    ).fetchall()
    started = next((data for _, _, kind, data in life if kind == RECORDER_STARTED), None)
    stopped = next((position for position, _, kind, _ in life if kind == RECORDER_STOPPED), None)
    return {
        "id": recorder,
        "site": site,
        "first_position": first_position,
        "heard_in_job_since": heard_position,
        "started": None if started is None else msgspec.Raw(started.encode()),
        "stopped_position": stopped,
        "life": [
            {"position": position, "recorded_at": format_us(moment), "type": kind} for position, moment, kind, _ in life
        ],
        "gaps": gaps_as_of(connection, recorder, up_to),
    }


def gaps_as_of(connection: sqlite3.Connection, recorder: str, up_to: int) -> list[dict[str, Any]]:
    """Every gap of a run known at a position; `closed_position` is null for those still open then."""
    statement = """SELECT first_seq, last_seq, opened_position, opened_us, closed_position FROM recorder_gaps
     WHERE recorder = ? AND opened_position <= ? ORDER BY opened_position, first_seq"""
    return [
        {
            "first_seq": first,
            "last_seq": last,
            "opened_position": opened,
            "opened_at": format_us(moment),
            "closed_position": closed if closed is not None and closed <= up_to else None,
        }
        for first, last, opened, moment, closed in connection.execute(statement, (recorder, up_to))
    ]
