"""How far each view has come, as a record to check: folded exactly positions 1 to N, with a running digest.

digest(n) = SHA-256(digest(n-1) ‖ position as 8 bytes, big-endian ‖ data_sha256), digest(0) = 32 zero bytes. Whoever
reads the store again can compute it: equal means that nothing was skipped, doubled or exchanged.
"""

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from service.domain.envelope import StoredEvent
from service.domain.times import format_us
from service.projections.projection import Change

VIEWS = (
    "jobs", "participants", "timeline", "diagnostics", "recorders", "checkpoints", "metrics", "commands", "replays",
    "documents",
)  # fmt: skip
"""Every view by name; all move together, and each has its own row so that a poison event counts against its view."""

_STORE = """INSERT OR REPLACE INTO projection_progress (view, position, quarantined, digest, moved_us)
 VALUES (?,?,(SELECT count(*) FROM quarantine WHERE view = ?),?,?)"""


class Progress(msgspec.Struct, frozen=True, gc=False):
    """Folded up to `position`; `digest` covers every event up to there."""

    position: int = 0
    digest: bytes = bytes(32)


def advance(progress: Progress, stored: StoredEvent) -> Progress:
    """Progress after the next event. Raises ValueError when it is not the next one."""
    if stored.position != progress.position + 1:
        raise ValueError(f"views stand at {progress.position} and got position {stored.position}: events are missing")
    link = progress.digest + stored.position.to_bytes(8, "big") + bytes.fromhex(stored.data_sha256)
    return Progress(stored.position, hashlib.sha256(link).digest())


def digest_of(events: Iterable[StoredEvent]) -> Progress:
    """The progress that folding exactly these events from the first one on must give."""
    progress = Progress()
    for stored in events:
        progress = advance(progress, stored)
    return progress


def load(connection: sqlite3.Connection) -> Progress:
    """Progress as stored; nothing folded when there is none."""
    for position, digest in connection.execute("SELECT position, digest FROM projection_progress LIMIT 1"):
        return Progress(position, digest)
    return Progress()


def of_views(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Where each view stands, how many events it had to set aside, and when it last moved."""
    statement = "SELECT view, position, quarantined, moved_us FROM projection_progress ORDER BY view"
    return [
        {"view": view, "position": position, "quarantined": quarantined, "moved_at": format_us(moved_us)}
        for view, position, quarantined, moved_us in connection.execute(statement)
    ]


def store(progress: Progress, now_us: int) -> list[Change]:
    """The rows of every view's progress."""
    return [(_STORE, (view, progress.position, view, progress.digest, now_us)) for view in VIEWS]
