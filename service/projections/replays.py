"""The replay view: what was asked to run again, and the verdict. Rows, one for each replay id.

Request and verdict meet by `replay_id`. A verdict without a request (a replay run from the command line) is a row too.
"""

import sqlite3
from typing import Any

import msgspec

from service.domain.events import REPLAY_JUDGED, REPLAY_REQUESTED, ReplayJudged, ReplayRequested
from service.domain.times import format_us
from service.errors import ReplayNotFound
from service.projections.projection import Change, JobAsOf, Observed

NAME = "replays"

_REQUESTED = """INSERT INTO replays (replay_id, stream, checkpoint_sha256, first_position, requested_position,
 requested_us, engine, round) VALUES (?,?,?,?,?,?,?,?)
 ON CONFLICT (replay_id) DO UPDATE SET requested_position = excluded.requested_position,
 requested_us = excluded.requested_us, engine = excluded.engine"""
_JUDGED = """INSERT INTO replays (replay_id, stream, checkpoint_sha256, first_position, judged_position, judged_us,
 verdict, result, round) VALUES (?,?,?,?,?,?,?,?,?)
 ON CONFLICT (replay_id) DO UPDATE SET judged_position = excluded.judged_position, judged_us = excluded.judged_us,
 verdict = excluded.verdict, result = excluded.result"""
_SELECT = """SELECT replay_id, stream, checkpoint_sha256, round, first_position, requested_position, requested_us,
 engine, judged_position, judged_us, verdict, result FROM replays WHERE first_position <= ?"""


def fold(observed: Observed) -> list[Change]:
    """The rows of one replay event."""
    position, stream, now_us = observed.position, observed.event.stream, observed.recorded_at_us
    if observed.event.type == REPLAY_REQUESTED:
        asked = observed.data_as(ReplayRequested)
        return [(_REQUESTED, (asked.replay_id, stream, asked.checkpoint_sha256, position, position, now_us,
                              asked.engine, asked.round))]  # fmt: skip
    if observed.event.type == REPLAY_JUDGED:
        judged = observed.data_as(ReplayJudged)
        result = msgspec.json.encode(judged.result).decode()
        return [(_JUDGED, (judged.replay_id, stream, judged.checkpoint_sha256, position, position, now_us,
                           judged.verdict, result, judged.round))]  # fmt: skip
    return []


def replays_as_of(connection: sqlite3.Connection, job: JobAsOf, after: int, limit: int) -> list[dict[str, Any]]:
    """Replays of a job first heard of in (after, job.up_to], oldest first, each as it stood at `job.up_to`."""
    where = " AND stream = ? AND first_position > ? ORDER BY first_position LIMIT ?"
    return [
        _replay(row, job.up_to) for row in connection.execute(_SELECT + where, (job.up_to, job.stream, after, limit))
    ]


def replays_of_checkpoint(connection: sqlite3.Connection, sha256: str, up_to: int) -> list[dict[str, Any]]:
    """Replays of one checkpoint, oldest first, each as it stood at `up_to`."""
    where = " AND checkpoint_sha256 = ? ORDER BY first_position"
    return [_replay(row, up_to) for row in connection.execute(_SELECT + where, (up_to, sha256))]


def replay_as_of(connection: sqlite3.Connection, replay_id: str, up_to: int) -> dict[str, Any]:
    """One replay as it stood at `up_to`. Raises ReplayNotFound."""
    for row in connection.execute(_SELECT + " AND replay_id = ?", (up_to, replay_id)):
        return _replay(row, up_to)
    raise ReplayNotFound(f"no replay {replay_id!r} was requested up to position {up_to}", replay_id=replay_id)


def waiting_requests(connection: sqlite3.Connection) -> list[tuple[str, str, str, str, int | None]]:
    """(replay_id, stream, checkpoint_sha256, engine, round) of each request that has no verdict yet, oldest first."""
    statement = """SELECT replay_id, stream, checkpoint_sha256, engine, round FROM replays
     WHERE requested_position IS NOT NULL AND judged_position IS NULL ORDER BY first_position"""
    return list(connection.execute(statement))


def _replay(row: tuple[Any, ...], up_to: int) -> dict[str, Any]:
    (replay_id, stream, sha256, round_number, first, requested_at, requested_us, engine,
     judged_at, judged_us, verdict, result) = row  # fmt: skip
    is_requested = requested_at is not None and requested_at <= up_to
    is_judged = judged_at is not None and judged_at <= up_to
    return {
        "id": replay_id,
        "stream": stream,
        "checkpoint_sha256": sha256,
        "round": round_number,
        "position": first,
        "state": "judged" if is_judged else "waiting",
        "engine_asked": engine if is_requested else None,
        "requested_position": requested_at if is_requested else None,
        "requested_at": format_us(requested_us) if is_requested else None,
        "judged_position": judged_at if is_judged else None,
        "judged_at": format_us(judged_us) if is_judged else None,
        "verdict": verdict if is_judged else None,
        "result": msgspec.Raw(result.encode()) if is_judged else None,
    }
