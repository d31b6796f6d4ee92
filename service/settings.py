"""Every setting, its default and its environment variable (`RETRACE_<NAME>`). docs/operations.md lists them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from service.errors import SetupError


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one service process runs. Sizes in bytes, times in seconds."""

    data: str = "retrace-data"
    """Folder of the embedded store, the artifacts and the log key."""
    database_url: str | None = None
    """`postgresql://…` when SQLite is outgrown; None means SQLite in the data folder."""
    artifacts_url: str | None = None
    """`s3://…` for artifact bytes; None means a folder in the data folder."""
    host: str = "127.0.0.1"
    port: int = 7400
    allowed_hosts: str | None = None
    """Host names, with commas between, that requests may come to besides loopback and `host`."""
    allowed_origins: str | None = None
    """Origins of pages, with commas between, that may send (`https://lab.example`); the service's own always may."""
    log_origin: str = "retrace.local/log"
    """Origin line of the transparency log: a name without scheme, spaces or plus signs."""
    body_bytes_max: int = 10 * 1024 * 1024
    event_bytes_max: int = 1024 * 1024
    nesting_max: int = 64
    artifact_bytes_max: int = 4 * 1024 * 1024 * 1024
    text_characters_max: int = 65_536
    """Longest string inside a payload, in code points."""
    queue_requests_max: int = 4096
    """Append requests that may wait for the writer; beyond it the answer is 503 with Retry-After."""
    queue_bytes_max: int = 256 * 1024 * 1024
    stale_after_s: float = 10.0
    """A participant without fresh evidence for this long is stale, unless the job's settings say otherwise."""
    speed_break_ratio: float = 8.0
    """A computation-only speed that falls to this fraction (1/8) while the backend stays is a speed break."""
    throttled_gap_s: float = 60.0
    throttled_tolerance_s: float = 10.0
    """Gaps between a page's snapshots within this much of `throttled_gap_s` are a background tab's, not a loss."""
    clock_skew_s: float = 30.0
    """A page whose clock differs from ours by more is flagged; liveness never uses it."""
    tree_head_every_s: float = 5.0
    replay_wall_s: float = 60.0
    replay_memory_bytes: int = 4 * 1024 * 1024 * 1024
    synchronous: str = "FULL"
    """SQLite's `synchronous`: FULL survives power loss; NORMAL may lose the last commits on power loss."""

    @property
    def folder(self) -> Path:
        """The data folder as a path."""
        return Path(self.data)


def load_settings(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from the environment, then from `overrides` whose value is not None (the command line).

    Raises SetupError for a variable that does not fit its type.
    """
    environment = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        variable = f"RETRACE_{field.name.upper()}"
        if variable in environment:
            found[field.name] = environment[variable]
    found.update({name: value for name, value in overrides.items() if value is not None})
    try:
        return msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SetupError(f"a setting does not fit: {error}; see docs/operations.md") from None
