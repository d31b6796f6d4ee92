"""ZIP files; PyTorch saves checkpoints as a ZIP around a pickle. Recognised by magic, never loaded."""

from service.artifacts.codecs.codec import NamedOnly


class ZipFile(NamedOnly):
    """Bytes 0..3 are a local header, or an end record when the archive is empty."""

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """`PK` and one of the two record types."""
        return head[:4] in (b"PK\x03\x04", b"PK\x05\x06")


CODEC = ZipFile("zip", "a ZIP file (such as a PyTorch checkpoint, which holds a pickle)")
