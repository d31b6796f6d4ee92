"""Checkpoint formats 1 and 2: safetensors files. Any other safetensors file is recognised too, and found malformed."""

from typing import Any

from service.artifacts.byte_source import ByteSource
from service.artifacts.checkpoint_inspection import inspect_checkpoint
from service.artifacts.module_package import ModulePackage
from service.artifacts.tensor_file import PREFIX_BYTES


class RetraceSafetensors:
    """A header size that fits the file, then a brace."""

    name = "retrace-checkpoint"

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """Bytes 0..7: a header size within the file; byte 8: the JSON object's brace."""
        header_size = int.from_bytes(head[:PREFIX_BYTES], "little")
        return head[PREFIX_BYTES : PREFIX_BYTES + 1] == b"{" and header_size >= 2

    def inspect(self, source: ByteSource, module: ModulePackage | None) -> dict[str, Any]:
        """The full inspection of a checkpoint."""
        return inspect_checkpoint(source, module)


CODEC = RetraceSafetensors()
