"""Roots, proofs and tiles as two other implementations and Go's `sumdb/tlog` computed them (golden file)."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from service.audit import merkle
from service.audit.entries import pack_entry, parse_tile_path, tile_path, tiles_of_size
from service.audit.log import nodes_of_tiles
from service.errors import MalformedNote
from service.store.tree_edge import TreeEdge

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "golden/merkle_vectors.json").read_text())
EIGHT = [merkle.leaf_hash(bytes.fromhex(leaf)) for leaf in VECTORS["reference_8"]["leaves_hex"]]
MANY = [merkle.leaf_hash(f"leaf-{at}".encode()) for at in range(70_000)]
TREES = {"reference_8": EIGHT, "sequence_1030": MANY[:1030], "tiles_70000": MANY}


def tiles_of(leaves: Sequence[bytes]) -> dict[tuple[int, int], bytes]:
    _, rows = TreeEdge().extended(leaves)
    return {(level, index): hashes for level, index, hashes in rows}


def nodes_of(leaves: Sequence[bytes]) -> merkle.NodeReader:
    tiles = tiles_of(leaves)
    return nodes_of_tiles(lambda level, index: tiles[level, index])


def roots() -> list[tuple[str, int, str]]:
    found = [(name, int(size), root) for name in ("reference_8", "sequence_1030")
             for size, root in VECTORS[name]["root_by_size"].items()]  # fmt: skip
    return [*found, ("tiles_70000", 70_000, VECTORS["tiles_70000"]["root"])]


def proofs(kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, case) for name in TREES for case in VECTORS[name][kind]]


@pytest.mark.parametrize(("tree", "size", "root"), roots())
def test_root_is_the_published_one(tree: str, size: int, root: str) -> None:
    leaves = TREES[tree][:size]
    assert merkle.root_of_leaves(leaves).hex() == root
    assert merkle.root(size, nodes_of(leaves)).hex() == root
    assert TreeEdge().extended(leaves)[0].root().hex() == root


def test_inclusion_proofs_are_the_published_ones() -> None:
    readers = {name: nodes_of(leaves) for name, leaves in TREES.items()}
    for tree, case in proofs("inclusion"):
        index, size = case["leaf_index"], case["tree_size"]
        proof = merkle.inclusion_proof(index, size, readers[tree])
        assert [one.hex() for one in proof] == case["proof"]
        root = merkle.root(size, readers[tree])
        merkle.verify_inclusion(index, size, TREES[tree][index], proof, root)


def test_consistency_proofs_are_the_published_ones() -> None:
    readers = {name: nodes_of(leaves) for name, leaves in TREES.items()}
    for tree, case in proofs("consistency"):
        old_size, size, read = case["old_size"], case["new_size"], readers[tree]
        proof = merkle.consistency_proof(old_size, size, read)
        assert [one.hex() for one in proof] == case["proof"]
        merkle.verify_consistency(old_size, size, merkle.root(old_size, read), merkle.root(size, read), proof)


def test_tiles_are_the_published_ones() -> None:
    expected = VECTORS["tiles_70000"]
    tiles = tiles_of(MANY)
    lines = []
    for level, index, width in tiles_of_size(70_000):
        path, hashes = tile_path(level, index, width), tiles[level, index]
        assert len(hashes) == width * 32
        lines.append((path, sha256(hashes).hexdigest()))
        if level == 0:
            bundle = b"".join(pack_entry(f"leaf-{at}".encode()) for at in range(index * 256, index * 256 + width))
            lines.append((tile_path(None, index, width), sha256(bundle).hexdigest()))
    digests = dict(lines)
    for path, digest in {**expected["sha256_of_tile"], **expected["sha256_of_entry_bundle"]}.items():
        assert digests[path] == digest
    manifest = "".join(f"{path} {digest}\n" for path, digest in sorted(lines))
    assert sha256(manifest.encode()).hexdigest() == expected["manifest_sha256"]


def test_tile_paths_are_the_published_ones() -> None:
    for index, text in VECTORS["tiles_70000"]["tile_path_examples"].items():
        assert tile_path(0, int(index)) == f"tile/0/{text}"
        assert parse_tile_path(f"tile/entries/{text}.p/7") == (None, int(index), 7)


@pytest.mark.parametrize(
    "path",
    ["tile/0/0", "tile/0/1000", "tile/0/x000/001", "tile/00/001", "tile/64/001", "tile/0/001.p/0", "tile/0/001.p/256",
     "tile/0/001.p/07", "tile/0/../001", "/tile/0/001", "tile/0/001/", "tile/data/001", "tile/0/\u0661\u0661\u0661"],
)  # fmt: skip
def test_other_spellings_of_a_tile_path_are_refused(path: str) -> None:
    with pytest.raises(MalformedNote):
        parse_tile_path(path)
