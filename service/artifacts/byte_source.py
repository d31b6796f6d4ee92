"""Bytes that may be too large to hold: a size and ranges of it. Formats read through this, wherever the bytes lie."""

import io
import mmap
from typing import BinaryIO, Protocol, runtime_checkable

Bytes = bytes | bytearray | memoryview


@runtime_checkable
class ByteSource(Protocol):
    """Random access to bytes of a known size."""

    @property
    def size_bytes(self) -> int:
        """How many bytes there are."""

    def read(self, begin: int, end: int) -> Bytes:
        """Exactly the bytes begin <= i < end, 0 <= begin <= end <= size_bytes. Raises EOFError if some are missing."""


class MemorySource:
    """Bytes in memory or in a mapped file; `read` hands out views and copies nothing."""

    def __init__(self, data: Bytes | mmap.mmap) -> None:
        self._view = memoryview(data).cast("B")

    @property
    def size_bytes(self) -> int:
        """Length of the buffer."""
        return self._view.nbytes

    def read(self, begin: int, end: int) -> Bytes:
        """A view, valid as long as the buffer lives."""
        return self._view[begin:end]


class FileSource:
    """A seekable binary file. One reader at a time: each read moves the file's position."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size_bytes = file.seek(0, io.SEEK_END)

    @property
    def size_bytes(self) -> int:
        """The file's size when it was opened here."""
        return self._size_bytes

    def read(self, begin: int, end: int) -> Bytes:
        """A copy of the range. Raises EOFError when the file became shorter meanwhile."""
        self._file.seek(begin)
        data = self._file.read(end - begin)
        if len(data) != end - begin:
            raise EOFError(f"wanted {end - begin} bytes from byte {begin} on, got {len(data)}: the file was cut")
        return data


Readable = Bytes | mmap.mmap | BinaryIO | ByteSource
"""What the formats can be read from."""


def as_source(data: Readable) -> ByteSource:
    """The same bytes as a ByteSource: buffers and seekable files are wrapped, a source is returned as it is."""
    if isinstance(data, bytes | bytearray | memoryview | mmap.mmap):
        return MemorySource(data)
    if isinstance(data, ByteSource):
        return data
    return FileSource(data)


def read_all(data: Readable) -> Bytes:
    """Everything, as one buffer."""
    source = as_source(data)
    return source.read(0, source.size_bytes)
