"""What travels between the replay's parent and child: frames of eight bytes of length (little-endian) and msgpack."""

import msgspec

from service.replay.judgement import Adapter

PREFIX_BYTES = 8


class Hello(msgspec.Struct, frozen=True, tag=True):
    """What the child found at its start. `gpu_reason` is None exactly when there is an adapter."""

    adapter: Adapter | None
    gpu_reason: str | None
    libraries: dict[str, str]
    start_ms: float


class LostDevice(msgspec.Struct, frozen=True, tag=True):
    """The last frame of a child whose device is gone."""

    reason: str
