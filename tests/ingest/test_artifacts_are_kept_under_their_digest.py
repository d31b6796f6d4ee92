"""Bytes come in under the digest that they have, or not at all; they go out whole, in part, or not again."""

import json
import threading
from hashlib import sha256
from typing import Any

import pytest

from tests.ingest.conftest import Client

BYTES = b"weights" * 1000
DIGEST = sha256(BYTES).hexdigest()
ADDRESS = f"/v1/artifacts/{DIGEST}"
LABEL = {"role": "checkpoint", "job": "j1", "round": "3"}


def kinds(client: Client) -> list[str]:
    """The types of everything recorded."""
    head = client.get("/health").json()["head"]
    return [client.get(f"/v1/events/{p}", params={"wait_for": head}).json()["type"] for p in range(1, head + 1)]


def test_upload_is_recorded_in_the_jobs_stream_with_its_inspection(client: Client) -> None:
    answer = client.put(ADDRESS, params=LABEL, content=BYTES)
    assert answer.status_code == 201
    event = client.get("/v1/events/1", params={"wait_for": 1}).json()
    assert (event["type"], event["stream"]) == ("artifact.archived", "job-j1")
    assert {"role": "checkpoint", "sha256": DIGEST, "size_bytes": 7000, "round": 3}.items() <= event["data"].items()
    assert event["data"]["inspection"]["well_formed"] is not True


def test_second_upload_finds_the_first_ones_receipt(client: Client) -> None:
    first = client.put(ADDRESS, params=LABEL, content=BYTES)
    again = client.put(ADDRESS, params=LABEL, content=BYTES)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["receipts"] == again.json()["receipts"]
    assert kinds(client) == ["artifact.archived"]


def test_wrong_digest_keeps_nothing_and_leaves_a_trace(client: Client) -> None:
    answer = client.put(ADDRESS, params=LABEL, content=BYTES[:-1])
    assert (answer.status_code, answer.json()["code"]) == (422, "digest_mismatch")
    assert client.get(ADDRESS).status_code == 404
    assert kinds(client) == ["artifact.refused"]


@pytest.mark.parametrize("sent", [0, 1, len(BYTES) - 1])
def test_upload_that_breaks_off_keeps_nothing(client: Client, sent: int) -> None:
    """The body ends before what was declared: the digest cannot fit, whatever the sender's reason."""
    assert client.put(ADDRESS, params=LABEL, content=BYTES[:sent]).status_code == 422
    assert client.head(ADDRESS).status_code == 404


def test_digest_can_be_computed_by_the_service(client: Client) -> None:
    answer = client.post("/v1/jobs/j1/artifacts", params={"role": "update"}, content=BYTES)
    assert (answer.status_code, answer.json()["sha256"]) == (201, DIGEST)


@pytest.mark.parametrize("digest", [DIGEST[:-1], DIGEST + "0", DIGEST.upper(), "....//", "%00", "%252e%252e"])
def test_only_digests_are_addresses(client: Client, digest: str) -> None:
    assert client.get(f"/v1/artifacts/{digest}").status_code in (404, 422)
    assert client.put(f"/v1/artifacts/{digest}", params=LABEL, content=b"x").status_code in (404, 405, 422)


def test_unknown_roles_and_parameters_are_refused(client: Client) -> None:
    assert client.put(ADDRESS, params={"role": "virus"}, content=BYTES).json()["code"] == "unknown_parameter"
    assert client.get(ADDRESS, params={"path": "../../etc/passwd"}).status_code == 422


def test_whole_part_and_unchanged(client: Client) -> None:
    client.put(ADDRESS, params=LABEL, content=BYTES)
    whole = client.get(ADDRESS)
    assert (whole.status_code, whole.content, whole.headers["content-length"]) == (200, BYTES, "7000")
    assert client.head(ADDRESS).headers["content-length"] == "7000"
    assert client.get(ADDRESS, headers={"if-none-match": whole.headers["etag"]}).status_code == 304


@pytest.mark.parametrize(
    ("asked", "status", "content", "content_range"),
    [
        ("bytes=0-6", 206, b"weights", "bytes 0-6/7000"),
        ("bytes=-2", 206, b"ts", "bytes 6998-6999/7000"),
        ("bytes=6995-99999", 206, b"ights", "bytes 6995-6999/7000"),
        ("bytes=7000-", 416, None, "bytes */7000"),
        ("bytes=5-2", 200, BYTES, None),
        ("bytes=0-1,4-5", 200, BYTES, None),
        ("lines=1-2", 200, BYTES, None),
    ],
)
def test_ranges(client: Client, asked: str, status: int, content: bytes | None, content_range: str | None) -> None:
    client.put(ADDRESS, params=LABEL, content=BYTES)
    answer = client.get(ADDRESS, headers={"range": asked})
    assert (answer.status_code, answer.headers.get("content-range")) == (status, content_range)
    assert content is None or answer.content == content


def test_same_bytes_arriving_twice_at_once_are_recorded_once(client: Client) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.put(ADDRESS, params=LABEL, content=BYTES)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {json.dumps(answer.json()["receipts"]) for answer in answers} == {json.dumps(answers[0].json()["receipts"])}
    assert kinds(client) == ["artifact.archived"]
