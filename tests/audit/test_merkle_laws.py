"""Laws of the tree: what is proved verifies, and nothing else does."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.audit import merkle
from service.audit.log import nodes_of_tiles
from service.store.tree_edge import TreeEdge, edge_tiles

LEAVES = [merkle.leaf_hash(str(at).encode()) for at in range(700)]
TILES = {(level, index): hashes for level, index, hashes in TreeEdge().extended(LEAVES)[1]}
READ = nodes_of_tiles(lambda level, index: TILES[level, index])
ROOTS = [merkle.root_of_leaves(LEAVES[:size]) for size in range(len(LEAVES) + 1)]

sizes = st.integers(1, len(LEAVES))


@given(sizes, st.data())
def test_every_leaf_is_proved_in_every_tree(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(index, size, READ)
    merkle.verify_inclusion(index, size, LEAVES[index], proof, ROOTS[size])


@given(sizes, sizes)
def test_every_tree_is_proved_to_extend_every_older_one(one: int, other: int) -> None:
    old_size, size = sorted((one, other))
    merkle.verify_consistency(
        old_size, size, ROOTS[old_size], ROOTS[size], merkle.consistency_proof(old_size, size, READ)
    )


def _mutations(proof: list[bytes]) -> list[Callable[[], list[bytes]]]:
    flips = [
        lambda at=at: [*proof[:at], bytes([proof[at][0] ^ 1]) + proof[at][1:], *proof[at + 1 :]]
        for at in range(len(proof))
    ]
    return [*flips, lambda: [*proof, bytes(32)], lambda: [bytes(32), *proof], lambda: proof[:-1], lambda: proof[1:]]


@given(sizes, st.data())
def test_changed_inclusion_proof_is_refused(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(index, size, READ)
    for mutate in _mutations(proof):
        if mutate() != proof:
            with pytest.raises(merkle.InvalidProof):
                merkle.verify_inclusion(index, size, LEAVES[index], mutate(), ROOTS[size])


@given(sizes, st.data())
def test_proof_is_not_valid_for_another_leaf_index_or_root(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(-1, size + 2).filter(lambda number: number != index))
    proof = merkle.inclusion_proof(index, size, READ)
    for arguments in (
        (other, size, LEAVES[index], proof, ROOTS[size]),
        (index, size, LEAVES[(index + 1) % 700], proof, ROOTS[size]),
        (index, size, LEAVES[index], proof, ROOTS[size - 1]),
    ):
        with pytest.raises(merkle.InvalidProof):
            merkle.verify_inclusion(*arguments)


@given(sizes, sizes)
def test_changed_consistency_proof_is_refused(one: int, other: int) -> None:
    old_size, size = sorted((one, other))
    proof = merkle.consistency_proof(old_size, size, READ)
    for mutate in _mutations(proof):
        if mutate() != proof:
            with pytest.raises(merkle.InvalidProof):
                merkle.verify_consistency(old_size, size, ROOTS[old_size], ROOTS[size], mutate())


@given(sizes, sizes)
def test_consistency_proof_is_not_valid_for_other_roots(one: int, other: int) -> None:
    old_size, size = sorted((one, other))
    proof = merkle.consistency_proof(old_size, size, READ)
    for old_root, root in ((ROOTS[old_size - 1], ROOTS[size]), (ROOTS[old_size], ROOTS[size - 1])):
        with pytest.raises(merkle.InvalidProof):
            merkle.verify_consistency(old_size, size, old_root, root, proof)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_hashes_of_another_length_are_refused(length: int) -> None:
    wrong = bytes(length)
    for arguments in ((0, 1, wrong, [], ROOTS[1]), (0, 1, LEAVES[0], [], wrong), (0, 2, LEAVES[0], [wrong], ROOTS[2])):
        with pytest.raises(merkle.InvalidProof):
            merkle.verify_inclusion(*arguments)
    with pytest.raises(merkle.InvalidProof):
        merkle.verify_consistency(1, 2, ROOTS[1], ROOTS[2], [wrong])


def test_empty_tree_has_one_root_and_only_the_empty_proof() -> None:
    merkle.verify_consistency(0, 5, merkle.EMPTY_ROOT, ROOTS[5], [])
    for old_root, proof in ((ROOTS[1], []), (merkle.EMPTY_ROOT, [ROOTS[1]])):
        with pytest.raises(merkle.InvalidProof):
            merkle.verify_consistency(0, 5, old_root, ROOTS[5], proof)


def test_smaller_tree_never_extends_a_larger_one() -> None:
    with pytest.raises(merkle.InvalidProof):
        merkle.verify_consistency(5, 4, ROOTS[5], ROOTS[4], [])


@given(st.lists(st.integers(0, 300), max_size=6))
def test_edge_grown_in_steps_equals_the_edge_grown_at_once(steps: list[int]) -> None:
    leaves = [merkle.leaf_hash(str(at).encode()) for at in range(sum(steps))]
    edge, tiles, at = TreeEdge(), {}, 0
    for step in steps:
        edge, rows = edge.extended(leaves[at : at + step])
        tiles.update({(level, index): hashes for level, index, hashes in rows})
        at += step
    whole, rows = TreeEdge().extended(leaves)
    assert edge.root() == whole.root() == merkle.root_of_leaves(leaves)
    assert tiles == {(level, index): hashes for level, index, hashes in rows}
    kept = [tiles.get((level, index), b"") for level, index, width in edge_tiles(at)]
    assert [len(hashes) for hashes in kept] == [width * 32 for _, _, width in edge_tiles(at)]
    assert TreeEdge(at, kept).root() == whole.root()
