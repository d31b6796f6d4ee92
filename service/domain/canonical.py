"""The one canonical byte form: UTF-8 JSON, keys sorted by code point, no white space, no escapes beyond JSON's own.

Used by leaves, checkpoint metadata and manifests alike. Non-finite floats have no canonical form: they must be
tagged (`service.domain.facts`) before they come here, and `canonical_json` refuses them.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


def canonical_json(value: Any) -> bytes:
    """Canonical bytes of a JSON value or Struct. Raises ValueError for NaN and infinities (never a silent null)."""
    _refuse_non_finite(value)
    return _encode(value)


def sha256_hex(data: bytes | bytearray | memoryview) -> str:
    """SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def _refuse_non_finite(value: Any) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no canonical JSON form; tag it first (service.domain.facts)")
    elif isinstance(value, Mapping):
        for item in value.values():
            _refuse_non_finite(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_non_finite(item)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _refuse_non_finite(getattr(value, name))
