"""The lake's tables: every column with its type, declared once. No inference anywhere, so a name that looks like a date
stays text and a late 1.5 is not cast to an integer.

Conventions. Moments are TIMESTAMP (µs, UTC); durations are seconds; sizes bytes. A number that is not finite has NULL
in its column and its name in the column's `_tag`; a value nobody reported is NULL in both. Every row carries the
`position` of the event that it came from. docs/formats.md describes the tables for other engines.
"""

import pyarrow as pa

LAKE_SCHEMA_VERSION = 1
"""Raised when a table changes shape: older segments are then made anew from the events."""

_TEXT = pa.string()
_COUNT = pa.int64()
_REAL = pa.float64()
_FLAG = pa.bool_()
MOMENT = pa.timestamp("us", tz="UTC")

_ORIGIN = [
    ("position", _COUNT),
    ("recorded_at", MOMENT),
    ("observed_at", MOMENT),
    ("recorder", _TEXT),
    ("site", _TEXT),
    ("job", _TEXT),
]
"""Where a row comes from; `job` is NULL for events of no job."""


def _table(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*_ORIGIN, *columns])


TABLES: dict[str, pa.Schema] = {
    "events": _table(
        ("stream", _TEXT),
        ("stream_position", _COUNT),
        ("id", _TEXT),
        ("type", _TEXT),
        ("seq", _COUNT),
        ("data_size", _COUNT),
        ("data_sha256", _TEXT),
    ),
    "jobs": _table(
        ("is_owner", _FLAG),
        ("phase", _TEXT),
        ("round", _REAL),
        ("completed_passes", _REAL),
        ("epochs", _REAL),
        ("aggregation", _TEXT),
        ("local_workers", _REAL),
        ("stale_after_s", _REAL),
    ),
    "snapshots": _table(
        ("participant", _TEXT),
        ("is_own_page", _FLAG),
        ("name", _TEXT),
        ("status", _TEXT),
        ("seen_at_ms", _REAL),
        ("requested_backend", _TEXT),
        ("backend", _TEXT),
        ("gpu_available", _FLAG),
        ("fallback_reason", _TEXT),
        ("browser", _TEXT),
        ("workers", _REAL),
        ("stage", _TEXT),
        ("stage_sequence", _REAL),
        ("assignment_id", _TEXT),
        ("assignment_round", _REAL),
        ("assignment_units", _REAL),
        ("batch_size", _REAL),
        ("local_steps", _REAL),
        ("samples_per_second", _REAL),
        ("samples_per_second_tag", _TEXT),
        ("model_sha256", _TEXT),
        ("shader_sha256", _TEXT),
        ("stale_after_s", _REAL),
    ),
    "stages": _table(
        ("participant", _TEXT),
        ("stage", _TEXT),
        ("duration_s", _REAL),
        ("assignment_id", _TEXT),
        ("assignment_round", _REAL),
    ),
    "commands": _table(
        ("event_id", _TEXT),
        ("called_id", _TEXT),
        ("is_return", _FLAG),
        ("name", _TEXT),
        ("outcome", _TEXT),
        ("duration_s", _REAL),
        ("error_code", _TEXT),
        ("error_message", _TEXT),
    ),
    "checkpoints": _table(
        ("sha256", _TEXT),
        ("round", _COUNT),
        ("checkpoint_format", _COUNT),
        ("parent_sha256", _TEXT),
        ("size_bytes", _COUNT),
    ),
    "metrics": _table(
        ("sha256", _TEXT),
        ("round", _COUNT),
        ("split", _TEXT),
        ("name", _TEXT),
        ("label", _TEXT),
        ("direction", _TEXT),
        ("value", _REAL),
        ("value_tag", _TEXT),
        ("reason", _TEXT),
    ),
    "artifacts": _table(
        ("sha256", _TEXT),
        ("role", _TEXT),
        ("round", _COUNT),
        ("size_bytes", _COUNT),
        ("media_format", _TEXT),
    ),
    "lineage": _table(
        ("sha256", _TEXT),
        ("round", _COUNT),
        ("parent_sha256", _TEXT),
        ("formula", _TEXT),
        ("contribution", _COUNT),
        ("assignment_id", _TEXT),
        ("participant", _TEXT),
        ("examples", _COUNT),
        ("update_sha256", _TEXT),
    ),
    "replays": _table(
        ("replay_id", _TEXT),
        ("sha256", _TEXT),
        ("round", _COUNT),
        ("verdict", _TEXT),
        ("engine", _TEXT),
        ("adapter", _TEXT),
        ("max_abs_error", _REAL),
        ("reason", _TEXT),
    ),
    "unreadable": _table(("reason", _TEXT)),
}
"""Name and columns of every table. `unreadable` holds the events whose payload the lens could not read."""
