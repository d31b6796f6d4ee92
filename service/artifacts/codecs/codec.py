"""What a codec is: how one kind of checkpoint bytes is recognised and looked at. A codec never runs what it reads."""

from typing import Any, Protocol

from service.artifacts.byte_source import ByteSource
from service.artifacts.module_package import ModulePackage

HEAD_BYTES = 512
"""How many bytes a codec sees to recognise its kind."""


class Codec(Protocol):
    """One kind of bytes."""

    @property
    def name(self) -> str:
        """Stable name, recorded as the artifact's `media_format`."""

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """Whether the first bytes (at most 512) and the size are this kind's. Decides by magic, parses nothing."""

    def inspect(self, source: ByteSource, module: ModulePackage | None) -> dict[str, Any]:
        """What is found, JSON-ready: at least `well_formed` (True, False, or None when not decided) and `reason`."""


class NamedOnly:
    """A kind that is recognised and named, and deliberately never loaded: loading it could run a program."""

    def __init__(self, name: str, description: str) -> None:
        self.name = name
        self._description = description

    def inspect(self, source: ByteSource, module: ModulePackage | None) -> dict[str, Any]:
        """Not a checkpoint that is read here; the bytes stay evidence under their digest."""
        reason = f"the bytes are {self._description}, which is kept and never loaded; wanted checkpoint format 1 or 2"
        return {"well_formed": False, "reason": reason, "code": "foreign_format", "checkpoint_format": None}
