"""The growing edge of the log's tree: from new leaf hashes to the tiles that must be written. In memory only.

Only the last, partial tile of each level is held: O(log n). A full tile is handed out once and never changes again;
its root becomes a hash of the level above (C2SP tlog-tiles).
"""

from collections.abc import Iterable, Sequence

from service.audit.merkle import HASH_SIZE, TILE_HEIGHT, TILE_WIDTH, perfect_root, root

TileRow = tuple[int, int, bytes]
"""`(level, tile_index, hashes)`: a row of `tiles`."""

_FULL = TILE_WIDTH * HASH_SIZE


class TreeEdge:
    """The partial tiles of a tree with `size` leaves."""

    def __init__(self, size: int = 0, partials: Iterable[bytes | bytearray] = ()) -> None:
        self.size = size
        self._partials = [bytearray(partial) for partial in partials]

    def extended(self, leaf_hashes: Sequence[bytes]) -> tuple["TreeEdge", list[TileRow]]:
        """A new edge with the leaves added, and the tiles that changed. This edge stays as it is, for a rollback."""
        edge = TreeEdge(self.size + len(leaf_hashes), self._partials)
        changed: dict[tuple[int, int], bytes] = {}
        edge._add(0, self.size, b"".join(leaf_hashes), changed)
        return edge, [(level, index, hashes) for (level, index), hashes in changed.items()]

    def partial_tiles(self) -> list[TileRow]:
        """The tiles that are not full yet."""
        return [(level, index, bytes(self._partials[level])) for level, index, width in edge_tiles(self.size) if width]

    def root(self) -> bytes:
        """The root over all leaves: every perfect subtree that it is made of lies in a partial tile."""
        return root(self.size, self._node)

    def _node(self, level: int, index: int) -> bytes:
        tile_level, within = divmod(level, TILE_HEIGHT)
        at = (index << within) % TILE_WIDTH * HASH_SIZE
        return perfect_root(bytes(self._partials[tile_level][at : at + (HASH_SIZE << within)]))

    def _add(self, level: int, count: int, hashes: bytes, changed: dict[tuple[int, int], bytes]) -> None:
        """Put hashes after the `count` that this level has; hand the roots of tiles that became full one level up."""
        if level == len(self._partials):
            self._partials.append(bytearray())
        partial, roots, index, above = self._partials[level], [], count // TILE_WIDTH, count // TILE_WIDTH
        partial += hashes
        while len(partial) >= _FULL:
            tile = bytes(partial[:_FULL])
            del partial[:_FULL]
            changed[level, index] = tile
            roots.append(perfect_root(tile))
            index += 1
        if partial:
            changed[level, index] = bytes(partial)
        if roots:
            self._add(level + 1, above, b"".join(roots), changed)


def edge_tiles(size: int) -> list[tuple[int, int, int]]:
    """The partial tiles `(level, tile_index, width)` of a tree with `size` leaves; width 0 when a level has none."""
    tiles = []
    level, count = 0, size
    while count:
        tiles.append((level, count // TILE_WIDTH, count % TILE_WIDTH))
        count >>= TILE_HEIGHT
        level += 1
    return tiles
