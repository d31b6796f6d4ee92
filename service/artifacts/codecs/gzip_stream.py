"""gzip streams: what is inside is not looked at. Recognised by magic, never inflated."""

from service.artifacts.codecs.codec import NamedOnly


class GzipStream(NamedOnly):
    """Bytes 0..1 are gzip's magic (RFC 1952, section 2.3.1)."""

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """0x1f, 0x8b."""
        return head[:2] == b"\x1f\x8b"


CODEC = GzipStream("gzip", "a gzip stream (not inflated)")
