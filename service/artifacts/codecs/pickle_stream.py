"""Python pickles (protocol 2 and later): a program in disguise. Recognised by its first opcode, never loaded."""

from service.artifacts.codecs.codec import NamedOnly

_PROTO = 0x80
_PROTOCOLS = range(2, 6)


class PickleStream(NamedOnly):
    """Byte 0 is the PROTO opcode, byte 1 a protocol number."""

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """0x80, then 2 to 5."""
        return len(head) > 2 and head[0] == _PROTO and head[1] in _PROTOCOLS


CODEC = PickleStream("pickle", "a Python pickle (a program, not data)")
