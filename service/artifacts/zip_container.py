"""A strict ZIP reader and a deterministic ZIP writer for small archives, in memory only: nothing is extracted.

The reader takes only what the writer of an honest small archive needs (APPNOTE 6.3.10, sections 4.3 to 4.4): members
stand one after another from byte 0, the central directory follows, its end record is the last thing in the file. So
no bytes hide before, between or behind, no member is described twice in two ways, and every cap is checked before a
byte is inflated. The writer stores (deflate output differs between zlib builds), sorts names and dates all to 1980.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

ARCHIVE_BYTES_MAX = 8 * 1024 * 1024
UNPACKED_BYTES_MAX = 8 * 1024 * 1024
MEMBERS_MAX = 256
RATIO_MAX = 200
RATIO_FREE_BYTES = 64 * 1024

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LOCAL_MAGIC, _CENTRAL_MAGIC, _END_MAGIC = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_STORED, _DEFLATED = 0, 8
_HARMLESS_FLAGS = 0x0806  # how hard deflate tried (bits 1 and 2), names in UTF-8 (bit 11)
_ENCRYPTED_FLAGS = 0x2041
_MADE_BY_UNIX_20 = 3 << 8 | 20
_NEEDS_20 = 20
_DATE_1980_01_01 = 0x21
_FILE_MODE = 0o100644
_KIND_MASK, _REGULAR = 0o170000, 0o100000


class ZipError(ValueError):
    """The archive is refused as a whole; `member` is the name concerned, None when it is the container itself."""

    def __init__(self, reason: str, member: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.member = member


class _Entry(NamedTuple):
    """One record of the central directory."""

    name: str
    raw_name: bytes
    method: int
    crc: int
    packed_size: int
    size: int
    local_offset: int


def read_zip(data: bytes) -> dict[str, bytes]:
    """The members by name, in the order of the file. Raises ZipError for anything out of the ordinary."""
    if len(data) > ARCHIVE_BYTES_MAX:
        raise ZipError(f"the archive has {len(data)} bytes, wanted at most {ARCHIVE_BYTES_MAX}")
    entries, directory_offset = _read_directory(data)
    _check_caps(entries)
    members: dict[str, bytes] = {}
    folded: set[str] = set()
    expected = 0
    for entry in entries:
        if entry.name.casefold() in folded:
            raise ZipError("the name is there twice", entry.name)
        folded.add(entry.name.casefold())
        if entry.local_offset != expected:
            raise ZipError(
                f"begins at byte {entry.local_offset}, wanted {expected}: hidden or shared bytes", entry.name
            )
        content, expected = _read_member(data, entry)
        members[entry.name] = content
    if expected != directory_offset:
        raise ZipError(f"{directory_offset - expected} bytes lie between the members and the directory")
    return members


def write_zip(members: Mapping[str, bytes]) -> bytes:
    """The archive's bytes; equal members give equal bytes on every machine. Raises ValueError for a bad name."""
    body, directory = b"", b""
    for name in sorted(members):
        raw_name = name.encode("ascii")
        check_name(name)
        content = members[name]
        shared = (0, _STORED, 0, _DATE_1980_01_01, zlib.crc32(content), len(content), len(content), len(raw_name), 0)
        directory += _CENTRAL.pack(
            _CENTRAL_MAGIC, _MADE_BY_UNIX_20, _NEEDS_20, *shared, 0, 0, 0, _FILE_MODE << 16, len(body)
        )
        directory += raw_name
        body += _LOCAL.pack(_LOCAL_MAGIC, _NEEDS_20, *shared) + raw_name + content
    count = len(members)
    return body + directory + _END.pack(_END_MAGIC, 0, 0, count, count, len(directory), len(body), 0)


def check_name(name: str) -> None:
    """Raises ZipError for a name that could lead out of a folder or is more than plain ASCII parts with slashes."""
    parts = name.split("/")
    if not name.isascii() or not name.isprintable() or len(name) > 200:
        raise ZipError("the name is not 1 to 200 printable ASCII characters", name[:200])
    if "\\" in name or ":" in name:
        raise ZipError("the name holds a backslash or a drive letter", name)
    if any(part in ("", ".", "..") for part in parts):
        raise ZipError("the name is absolute, a folder, or holds an empty or dotted part", name)


def _read_directory(data: bytes) -> tuple[list[_Entry], int]:
    """The central directory and its offset; the end record must be the last 22 bytes, without a comment."""
    if len(data) < _END.size or data[-_END.size :][:4] != _END_MAGIC:
        raise ZipError("the last 22 bytes are no end record: not a ZIP, cut, or followed by other bytes")
    _, disk, first_disk, here, count, size, offset, comment = _END.unpack(data[-_END.size :])
    if disk or first_disk or here != count or comment or 0xFFFF in (here, count):
        raise ZipError("the end record asks for several disks, a comment or ZIP64, which are not taken")
    if count > MEMBERS_MAX:
        raise ZipError(f"{count} members, wanted at most {MEMBERS_MAX}")
    if offset + size + _END.size != len(data):
        raise ZipError("the directory does not end where the end record begins: bytes before or behind the archive")
    entries, at = [], offset
    for _ in range(count):
        entry, at = _read_entry(data, at, offset + size)
        entries.append(entry)
    if at != offset + size:
        raise ZipError(f"{offset + size - at} bytes of the directory belong to no member")
    return entries, offset


def _read_entry(data: bytes, at: int, end: int) -> tuple[_Entry, int]:
    if at + _CENTRAL.size > end or data[at : at + 4] != _CENTRAL_MAGIC:
        raise ZipError(f"byte {at}: wanted a directory record")
    fields = _CENTRAL.unpack_from(data, at)
    _, made_by, _, flags, method, _, _, crc, packed_size, size, name_size, extra_size, comment_size = fields[:13]
    disk, _, attributes, local_offset = fields[13:]
    name_at = at + _CENTRAL.size
    next_at = name_at + name_size + extra_size + comment_size
    raw_name = data[name_at : name_at + name_size]
    name = raw_name.decode("latin-1")
    if next_at > end or disk or comment_size:
        raise ZipError("the directory record runs over, names another disk or has a comment", name)
    check_name(name)
    if flags & _ENCRYPTED_FLAGS:
        raise ZipError("the member is encrypted", name)
    if flags & ~_HARMLESS_FLAGS:
        raise ZipError(f"the member has flags {flags:#06x}, such as a data descriptor, which is not taken", name)
    if extra_size:
        raise ZipError("the member has extra fields, which could give it a second name; pack without them", name)
    kind = (attributes >> 16) & _KIND_MASK if made_by >> 8 == 3 else 0
    if kind not in (0, _REGULAR):
        raise ZipError("the member is a symbolic link or another special file", name)
    if method not in (_STORED, _DEFLATED):
        raise ZipError(f"the member is packed by method {method}, wanted 0 (stored) or 8 (deflated)", name)
    return _Entry(name, raw_name, method, crc, packed_size, size, local_offset), next_at


def _check_caps(entries: list[_Entry]) -> None:
    """Declared sizes against the caps; what inflates beyond its declared size is caught when it is read."""
    total = sum(entry.size for entry in entries)
    if total > UNPACKED_BYTES_MAX:
        raise ZipError(f"{total} bytes unpacked, wanted at most {UNPACKED_BYTES_MAX}")
    for entry in entries:
        if entry.size > RATIO_FREE_BYTES and entry.size > RATIO_MAX * entry.packed_size:
            raise ZipError(
                f"{entry.packed_size} bytes become {entry.size}, wanted at most {RATIO_MAX} times", entry.name
            )


def _read_member(data: bytes, entry: _Entry) -> tuple[bytes, int]:
    """The member's bytes and the offset behind it; its local header must say what the directory says."""
    if len(data) < entry.local_offset + _LOCAL.size:
        raise ZipError("the member lies outside the file", entry.name)
    magic, _, flags, method, _, _, crc, packed_size, size, name_size, extra_size = _LOCAL.unpack_from(
        data, entry.local_offset
    )
    begin = entry.local_offset + _LOCAL.size + name_size
    raw_name = data[entry.local_offset + _LOCAL.size : begin]
    said = (raw_name, method, crc, packed_size, size)
    if magic != _LOCAL_MAGIC or flags & ~_HARMLESS_FLAGS or extra_size or said != (entry.raw_name, *entry[2:6]):
        raise ZipError("the member's own header contradicts the directory", entry.name)
    packed = data[begin : begin + packed_size]
    content = packed if method == _STORED else _inflate(packed, entry)
    if len(content) != size or zlib.crc32(content) != crc:
        raise ZipError("the content is not what size and CRC-32 say", entry.name)
    return content, begin + packed_size


def _inflate(packed: bytes, entry: _Entry) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflater.decompress(packed, entry.size + 1)
    except zlib.error as error:
        raise ZipError(f"the content cannot be inflated: {error}", entry.name) from None
    if not inflater.eof or inflater.unused_data or inflater.unconsumed_tail:
        raise ZipError("the content inflates to more than its declared size, or to less", entry.name)
    return content
