"""C2SP tlog-tiles on paper: tile and entry paths, and how entries are bundled. Pure; reads nothing.

Reference: c2sp.org/tlog-tiles. Used by whoever serves, exports or checks a log.
"""

import re
import struct
from collections.abc import Iterable, Iterator

from service.audit.merkle import TILE_WIDTH
from service.domain.envelope import StoredEvent, leaf_bytes
from service.errors import Corrupt, MalformedNote

_INDEX = r"(?:x[0-9]{3}/)*[0-9]{3}"
_PATH = re.compile(rf"tile/(entries|[0-9]|[1-5][0-9]|6[0-3])/({_INDEX})(?:\.p/([1-9][0-9]{{0,2}}))?", re.ASCII)


def tile_path(level: int | None, tile_index: int, width: int = TILE_WIDTH) -> str:
    """`tile/L/N[.p/W]`, or `tile/entries/N[.p/W]` for level None; 1234067 is written x001/x234/067."""
    digits = f"{tile_index:03d}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    index = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    return f"tile/{'entries' if level is None else level}/{index}" + (f".p/{width}" if width < TILE_WIDTH else "")


def parse_tile_path(path: str) -> tuple[int | None, int, int]:
    """`(level or None for entries, tile_index, width)`. Raises MalformedNote unless it is the canonical spelling."""
    match = _PATH.fullmatch(path)
    if match is not None:
        level = None if match[1] == "entries" else int(match[1])
        index, width = int(re.sub("[x/]", "", match[2])), int(match[3] or TILE_WIDTH)
        if tile_path(level, index, width) == path:
            return level, index, width
    raise MalformedNote(f"got {path[:80]!r}, wanted a tile path such as tile/0/x001/067 or tile/entries/000.p/5")


def tiles_of_size(size: int) -> Iterator[tuple[int, int, int]]:
    """Every tile `(level, tile_index, width)` of a log with `size` leaves."""
    level, count = 0, size
    while count:
        full, width = divmod(count, TILE_WIDTH)
        yield from ((level, index, TILE_WIDTH) for index in range(full))
        if width:
            yield level, full, width
        level, count = level + 1, full


def entry_bundle(events: Iterable[StoredEvent]) -> bytes:
    """Entries one after the other, each after its length in two bytes, big-endian."""
    return b"".join(pack_entry(leaf_bytes(event)) for event in events)


def pack_entry(leaf: bytes) -> bytes:
    """One entry of a bundle; the format ends at 65,535 bytes, which an envelope of checked ids cannot reach."""
    return struct.pack(">H", len(leaf)) + leaf


def unpack_entries(bundle: bytes) -> list[bytes]:
    """The leaves in a bundle. Raises Corrupt when the lengths do not fit."""
    leaves, at = list[bytes](), 0
    while at < len(bundle):
        size = int.from_bytes(bundle[at : at + 2], "big")
        leaf = bundle[at + 2 : at + 2 + size]
        if at + 2 > len(bundle) or len(leaf) != size:
            raise Corrupt(f"the entry bundle ends inside its entry {len(leaves)}")
        leaves.append(leaf)
        at += 2 + size
    return leaves
