"""The answer for bytes of no known kind: they are kept under their digest, and nothing is claimed about them."""

from typing import Any

from service.artifacts.byte_source import ByteSource
from service.artifacts.module_package import ModulePackage


class UnknownFormat:
    """Recognises everything; stands last."""

    name = "unknown"

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """Always."""
        return True

    def inspect(self, source: ByteSource, module: ModulePackage | None) -> dict[str, Any]:
        """Neither well-formed nor malformed: not decided."""
        first = bytes(source.read(0, min(8, source.size_bytes))).hex(" ")
        reason = f"unknown format: the first bytes are {first or 'none'}"
        return {"well_formed": None, "reason": reason, "code": "unknown_format", "checkpoint_format": None}


CODEC = UnknownFormat()
