"""What an outsider fetches is enough to check an event, and that nothing was rewritten since the last look."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.audit import merkle
from service.settings import Settings
from tests.ingest.wire import NDJSON, wire_event

Client = TestClient[Litestar]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    settings = Settings(data=str(tmp_path / "data"))
    with TestClient(create_app(settings), base_url="http://127.0.0.1:7400") as client:
        yield client


def record(client: Client, first: int, last: int) -> None:
    body = "\n".join(json.dumps(wire_event(number)) for number in range(first, last + 1))
    client.post("/v1/events", content=body, headers={"content-type": NDJSON}).raise_for_status()


def head_of(note: str) -> tuple[int, bytes]:
    _, size, root, *_ = note.split("\n")
    return int(size), b64decode(root)


def leaves(client: Client, tile: str) -> list[bytes]:
    bundle, found = client.get(f"/log/tile/entries/{tile}").content, []
    while bundle:
        length = int.from_bytes(bundle[:2], "big")
        found.append(bundle[2 : 2 + length])
        bundle = bundle[2 + length :]
    return found


def test_root_follows_from_the_leaves_that_are_served(client: Client) -> None:
    record(client, 1, 300)
    size, root = head_of(client.get("/log/checkpoint").text)
    found = leaves(client, "000") + leaves(client, "001.p/44")
    assert size == len(found) == 300
    tree = merkle.CompactRange()
    for leaf in found:
        tree.append(merkle.leaf_hash(leaf))
    assert tree.root() == root
    assert json.loads(found[41])["position"] == 42


def test_tiles_hold_the_hashes_of_the_leaves(client: Client) -> None:
    record(client, 1, 5)
    tile = client.get("/log/tile/0/000.p/5")
    assert tile.content == b"".join(map(merkle.leaf_hash, leaves(client, "000.p/5")))
    assert "immutable" in tile.headers["cache-control"]


def test_proof_file_leads_from_the_event_to_the_signed_head(client: Client) -> None:
    record(client, 1, 20)
    proof, note = client.get("/v1/proofs/7").text.split("\n\n", 1)
    header, index, *hashes = proof.split("\n")
    assert (header, index) == ("c2sp.org/tlog-proof@v1", "index 6")
    size, root = head_of(note)
    merkle.verify_inclusion(
        6, size, merkle.leaf_hash(leaves(client, "000.p/20")[6]), list(map(b64decode, hashes)), root
    )


def test_later_head_is_shown_to_extend_the_one_that_was_kept(client: Client) -> None:
    record(client, 1, 20)
    old_size, old_root = head_of(client.get("/log/checkpoint").text)
    record(client, 21, 50)
    size, root = head_of(client.get("/log/checkpoint").text)
    proof = client.get("/v1/consistency", params={"old_size": old_size, "size": size}).json()
    merkle.verify_consistency(old_size, size, old_root, root, list(map(b64decode, proof["hashes"])))


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/log/tile/0/999", 404, "not_found"),
        ("/log/tile/0/1", 400, "malformed_note"),
        ("/log/tile/0/000.p/256", 400, "malformed_note"),
        ("/log/tile/64/000", 400, "malformed_note"),
        ("/v1/proofs/9", 404, "event_not_found"),
        ("/v1/consistency?old_size=9&size=5", 404, "not_found"),
        ("/v1/consistency?old_size=0", 404, "not_found"),
    ],
)
def test_what_the_log_does_not_have_is_said(client: Client, path: str, status: int, code: str) -> None:
    record(client, 1, 8)
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
