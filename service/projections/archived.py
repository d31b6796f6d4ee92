"""The archive as the events tell it: which artifacts of which role arrived for a job, and what was found in them."""

import sqlite3
from typing import Any

import msgspec

from service.domain.events import ARTIFACT_ARCHIVED, ArtifactArchived
from service.domain.times import format_us
from service.projections.projection import Change, JobAsOf, Observed

NAME = "checkpoints"
"""Archived artifacts belong to the checkpoint view; one that cannot be applied is quarantined there."""

_ARCHIVED = """INSERT OR IGNORE INTO artifacts (position, stream, role, sha256, size_bytes, round, media_format,
 inspection, recorded_us) VALUES (?,?,?,?,?,?,?,?,?)"""
_OF_JOB = """SELECT position, role, sha256, size_bytes, media_format, inspection, recorded_us FROM artifacts
 WHERE stream = ? AND role != 'checkpoint' AND position <= ? ORDER BY position"""


def fold(observed: Observed) -> list[Change]:
    """The row of one `artifact.archived`, of whatever role."""
    if observed.event.type != ARTIFACT_ARCHIVED:
        return []
    kept = observed.data_as(ArtifactArchived)
    inspection = None if kept.inspection is None else msgspec.json.encode(kept.inspection).decode()
    return [(_ARCHIVED, (observed.position, observed.event.stream, kept.role, kept.sha256, kept.size_bytes, kept.round,
                         kept.media_format, inspection, observed.recorded_at_us))]  # fmt: skip


def artifacts_as_of(connection: sqlite3.Connection, job: JobAsOf) -> list[dict[str, Any]]:
    """Everything that was archived for a job beside its checkpoints: module, shader archive, validation set."""
    return [
        {
            "role": role,
            "sha256": sha256,
            "size_bytes": size,
            "media_format": media_format,
            "position": position,
            "archived_at": format_us(recorded_us),
            "inspection": None if inspection is None else msgspec.json.decode(inspection),
        }
        for position, role, sha256, size, media_format, inspection, recorded_us in connection.execute(
            _OF_JOB, (job.stream, job.up_to)
        )
    ]


def manifest_directions(connection: sqlite3.Connection, job: JobAsOf) -> dict[str, str]:
    """Direction (min, max) of each metric that an archived module's manifest tells; the module archived last counts."""
    found: dict[str, str] = {}
    for artifact in artifacts_as_of(connection, job):
        for metric in (artifact["inspection"] or {}).get("metrics") or () if artifact["role"] == "module" else ():
            if metric.get("direction") in ("min", "max"):
                found[metric["key"]] = metric["direction"]
    return found
