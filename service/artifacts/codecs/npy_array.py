"""NumPy's .npy files; with an object dtype they hold a pickle. Recognised by magic, never loaded."""

from service.artifacts.codecs.codec import NamedOnly


class NpyArray(NamedOnly):
    """Bytes 0..5 are NumPy's magic."""

    def recognises(self, head: bytes, size_bytes: int) -> bool:
        """0x93, then `NUMPY`."""
        return head[:6] == b"\x93NUMPY"


CODEC = NpyArray("npy", "a NumPy .npy file (which may hold a pickle)")
