"""DuckDB as every question sees it: in memory, its configuration locked, no way out but the lake's own files.

One connection per lake, a cursor per query: temporary views and registered tables belong to the cursor, so two
questions never see each other's. The session's zone is UTC whatever the host says.
"""

from pathlib import Path

import duckdb

MEMORY_LIMIT = "1GB"

_LOCKED = (
    "SET TimeZone = 'UTC'",
    f"SET memory_limit = '{MEMORY_LIMIT}'",
    "SET python_enable_replacements = false",
    "SET allow_community_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET preserve_insertion_order = true",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def open_engine(folder: Path) -> duckdb.DuckDBPyConnection:
    """An in-memory engine that can read files below `folder` and nothing else. The order of the settings matters."""
    engine = duckdb.connect(":memory:")
    quoted = str(folder.resolve()).replace("'", "''")
    engine.execute(f"SET allowed_directories = ['{quoted}']")
    for setting in _LOCKED:
        engine.execute(setting)
    return engine
