"""RFC 6962 and RFC 9162 Merkle trees over SHA-256: hashes, roots, proofs and their strict verification.

Pure arithmetic on bytes with the standard library alone; nothing here stores, signs or reads a file. Trees are read
through a `NodeReader`, so the same functions serve a list in memory, tiles in a database and tiles over HTTP.
Proof order is RFC 6962's: the sibling of the leaf first, the child of the root last.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

HASH_SIZE = 32
TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
"""C2SP tlog-tiles: a tile holds up to 256 hashes of one level, and eight levels of the tree lie between two tiles."""

EMPTY_ROOT = sha256(b"").digest()

NodeReader = Callable[[int, int], bytes]
"""`(level, index)` → hash of the perfect subtree with 2^level leaves that starts at leaf `index * 2^level`."""


class InvalidProof(ValueError):
    """A proof does not show what it claims; the message says which rule failed."""


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 ‖ data). RFC 9162 section 2.1.1."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right). RFC 9162 section 2.1.1."""
    return sha256(b"\x01" + left + right).digest()


def level_above(hashes: bytes) -> bytes:
    """The concatenated parents of an even number of concatenated hashes."""
    return b"".join([sha256(b"\x01" + hashes[at : at + 64]).digest() for at in range(0, len(hashes), 64)])


def perfect_root(hashes: bytes) -> bytes:
    """The root over 2^k concatenated hashes (a full tile, or the part of it below one node)."""
    while len(hashes) > HASH_SIZE:
        hashes = level_above(hashes)
    return hashes


class CompactRange:
    """The right edge of a growing tree: O(log n) memory, amortised O(1) hashes per leaf, root at any time."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash on the right."""
        peaks, ones = self._peaks, self.size
        while ones & 1:
            leaf = sha256(b"\x01" + peaks.pop() + leaf).digest()
            ones >>= 1
        peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Root over all leaves so far; SHA-256 of nothing when there are none."""
        return _fold(self._peaks) if self._peaks else EMPTY_ROOT


def compact_nodes(start: int, end: int) -> list[tuple[int, int]]:
    """The maximal perfect subtrees `(level, index)` that cover leaves [start, end), left to right."""
    nodes = []
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        nodes.append((level, start >> level))
        start += 1 << level
    return nodes


def root(size: int, read_node: NodeReader) -> bytes:
    """MTH(D[size]), RFC 9162 section 2.1.1."""
    return _range_root(0, size, read_node) if size else EMPTY_ROOT


def root_of_leaves(leaves: Iterable[bytes]) -> bytes:
    """Root over leaf hashes given one after the other."""
    edge = CompactRange()
    for leaf in leaves:
        edge.append(leaf)
    return edge.root()


def inclusion_proof(index: int, size: int, read_node: NodeReader) -> list[bytes]:
    """PATH(index, D[size]), RFC 9162 section 2.1.3.1. Raises ValueError unless 0 <= index < size."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of size {size}")
    start, end, proof = 0, size, list[bytes]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_range_root(middle, end, read_node))
            end = middle
        else:
            proof.append(_range_root(start, middle, read_node))
            start = middle
    return proof[::-1]


def consistency_proof(old_size: int, size: int, read_node: NodeReader) -> list[bytes]:
    """PROOF(old_size, D[size]), RFC 9162 section 2.1.4.1; empty when the sizes are equal or the old one is 0.

    Raises ValueError unless 0 <= old_size <= size.
    """
    if not 0 <= old_size <= size:
        raise ValueError(f"a tree of size {size} cannot extend one of size {old_size}")
    if old_size in {0, size}:
        return []
    start, end, proof = 0, size, list[bytes]()
    while old_size < end:
        middle = start + _split(end - start)
        if old_size <= middle:
            proof.append(_range_root(middle, end, read_node))
            end = middle
        else:
            proof.append(_range_root(start, middle, read_node))
            start = middle
    if start:
        proof.append(_range_root(start, end, read_node))
    return proof[::-1]


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root_hash: bytes) -> None:
    """Raise InvalidProof unless the leaf hash stands at `index` of the tree (RFC 9162 section 2.1.3.2)."""
    _check_hashes([leaf, root_hash, *proof])
    if not 0 <= index < size:
        raise InvalidProof(f"leaf index {index} is outside a tree of size {size}")
    node, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise InvalidProof("the proof is longer than the path from leaf to root")
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise InvalidProof("the proof is shorter than the path from leaf to root")
    if found != root_hash:
        raise InvalidProof("leaf and proof give another root")


def verify_consistency(
    old_size: int, size: int, old_root: bytes, root_hash: bytes, proof: Sequence[bytes]
) -> None:  # fmt: skip
    """Raise InvalidProof unless the tree extends the old one (RFC 9162 section 2.1.4.2).

    Size 0 is the empty tree: its root must be SHA-256 of nothing, and the proof empty.
    """
    _check_hashes([old_root, root_hash, *proof])
    if not 0 <= old_size <= size:
        raise InvalidProof(f"size {size} is smaller than the remembered size {old_size}")
    if old_size in {0, size}:
        _verify_trivial_consistency(old_size, size, old_root, root_hash, proof)
        return
    steps = list(proof) if old_size & (old_size - 1) else [old_root, *proof]
    if not steps:
        raise InvalidProof("the proof is empty")
    node, last = old_size - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old_found = found = steps[0]
    for sibling in steps[1:]:
        if last == 0:
            raise InvalidProof("the proof is longer than the path to the root")
        if node & 1 or node == last:
            old_found, found = node_hash(sibling, old_found), node_hash(sibling, found)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise InvalidProof("the proof is shorter than the path to the root")
    if old_found != old_root:
        raise InvalidProof("the proof does not give the remembered root: history was rewritten")
    if found != root_hash:
        raise InvalidProof("the proof does not give the new root")


def _verify_trivial_consistency(
    old_size: int, size: int, old_root: bytes, root_hash: bytes, proof: Sequence[bytes]
) -> None:  # fmt: skip
    if proof:
        raise InvalidProof("the proof must be empty for equal sizes and for an empty old tree")
    if old_size == 0 and old_root != EMPTY_ROOT:
        raise InvalidProof("the root of an empty tree is SHA-256 of nothing")
    if old_size == size and old_root != root_hash:
        raise InvalidProof("two roots for one size: the log shows two histories")


def _check_hashes(hashes: Iterable[bytes]) -> None:
    for one in hashes:
        if len(one) != HASH_SIZE:
            raise InvalidProof(f"got a hash of {len(one)} bytes, wanted exactly {HASH_SIZE}")


def _split(width: int) -> int:
    """The largest power of two below `width` (RFC 9162 section 2.1.1)."""
    return 1 << (width - 1).bit_length() - 1


def _range_root(start: int, end: int, read_node: NodeReader) -> bytes:
    return _fold([read_node(level, index) for level, index in compact_nodes(start, end)])


def _fold(peaks: Sequence[bytes]) -> bytes:
    """One hash from the perfect subtrees of a range, the smallest (rightmost) first."""
    found = peaks[-1]
    for peak in reversed(peaks[:-1]):
        found = node_hash(peak, found)
    return found
