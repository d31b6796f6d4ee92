"""The gate refuses by written rules, with a stable code and the path; nothing of a refused batch is stored."""

import gzip
import json
from typing import Any

import pytest

from service.settings import Settings
from tests.ingest.conftest import Client
from tests.ingest.wire import NDJSON, wire_event, wire_text

JSON_TYPE = {"content-type": "application/json"}
LIMIT = Settings().text_characters_max


def refusal(client: Client, body: bytes, content_type: str = "application/json", **headers: str) -> tuple[Any, ...]:
    response = client.post("/v1/events", content=body, headers={"content-type": content_type, **headers})
    assert response.headers["content-type"] == "application/problem+json"
    assert client.get("/health").json()["head"] == 0
    problem = response.json()
    return response.status_code, problem["code"], problem.get("path")


@pytest.mark.parametrize(
    ("data", "status", "code", "path"),
    [
        (b'{"round":3,"round":4}', 400, "duplicate_key", "$.data.round"),
        (b'{"a":{"\\u0062":1,"b":1}}', 400, "duplicate_key", "$.data.a.b"),
        (b'{"loss":NaN}', 400, "invalid_json", "$"),
        (b'{"loss":[1,1e999]}', 400, "number_out_of_range", "$.data.loss[1]"),
        (b'{"n":' + b"7" * 5000 + b"}", 400, "number_out_of_range", "$.data.n"),
        (b'{"name":"\\ud83d"}', 400, "invalid_json", "$"),
        (b'{"name":"\xff"}', 400, "invalid_json", "$"),
        (b'{"metrics":{"lo\\u0000ss":1}}', 400, "invalid_field", '$.data.metrics["lo\\u0000ss"]'),
        (b'{"participants":[{"id":"p\\u00001"}]}', 400, "invalid_field", "$.data.participants[0].id"),
        (b'{"fallbackReason":"' + b"x" * (LIMIT + 1) + b'"}', 413, "too_large", "$.data.fallbackReason"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "nesting_too_deep", "$"),
        (b'{"}":' * 70 + b"1" + b',"{":1}' * 70, 400, "nesting_too_deep", "$"),
        (b"[1]", 400, "invalid_field", "$.data"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_payload_that_breaks_a_rule(empty_client: Client, data: bytes, status: int, code: str, path: str) -> None:
    assert refusal(empty_client, wire_text(1, data)) == (status, code, path)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"id": "0190AAAA-0000-7000-8000-000000000001"}, "$.id"),
        ({"type": "artifact.archived"}, "$.type"),
        ({"type": "Not A Type"}, "$.type"),
        ({"stream": "jobs"}, "$.stream"),
        ({"stream": "job-"}, "$.stream"),
        ({"stream": "job-" + "j" * 201}, "$.stream"),
        ({"stream": "artifact-" + "A" * 64}, "$.stream"),
        ({"observed_at": "2026-12-01T05:00:00"}, "$.observed_at"),
        ({"schema_version": 0}, "$.schema_version"),
        ({"schema_version": 2**31}, "$.schema_version"),
        ({"source": {"recorder": "r", "seq": 1, "site": "s"}}, "$.source.recorder"),
        ({"source": {"recorder": wire_event(1)["id"], "seq": 0, "site": "s"}}, "$.source.seq"),
        ({"source": {"recorder": wire_event(1)["id"], "seq": 1, "site": "s", "x": 1}}, "$.source.x"),
        ({"extra": 1}, "$.extra"),
        ({"correlation_id": "a\0b"}, "$.correlation_id"),
    ],
    ids=str,
)
def test_envelope_that_breaks_a_rule(empty_client: Client, fields: dict[str, Any], path: str) -> None:
    assert refusal(empty_client, json.dumps(wire_event(1, **fields)).encode()) == (400, "invalid_field", path)


def test_batch_is_all_or_nothing_and_names_the_bad_event(empty_client: Client) -> None:
    events = [wire_event(number) for number in range(1, 11)]
    events[6]["source"]["seq"] = "seven"
    batch = "\n".join(map(json.dumps, events)).encode()

    for _ in range(5):
        assert refusal(empty_client, batch, NDJSON) == (400, "invalid_field", "$[6].source.seq")


def test_empty_batches_are_refused(empty_client: Client) -> None:
    assert refusal(empty_client, b"[]")[:2] == (400, "invalid_field")
    assert refusal(empty_client, b"\n\n", NDJSON)[:2] == (400, "invalid_field")


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/json; charset=latin-1"])
def test_other_content_types_are_refused(empty_client: Client, content_type: str, event: dict[str, Any]) -> None:
    assert refusal(empty_client, json.dumps(event).encode(), content_type)[:2] == (415, "unsupported_content_type")


def test_event_beyond_its_limit_is_named_with_limit_and_unit(empty_client: Client) -> None:
    texts = [b'"' + b"x" * 60_000 + b'"'] * 18
    response = empty_client.post(
        "/v1/events", content=wire_text(1, b'{"a":[' + b",".join(texts) + b"]}"), headers=JSON_TYPE
    )
    problem = response.json()
    assert (response.status_code, problem["limit"], problem["unit"]) == (413, 1024 * 1024, "bytes")


def test_text_of_exactly_the_limit_is_kept_however_wide_its_characters_are(client: Client) -> None:
    data = '{"fallbackReason":"%s"}' % ("👩" * LIMIT)
    response = client.post("/v1/events", content=wire_text(1, data.encode()), headers=JSON_TYPE)
    assert response.status_code == 201


def test_gzip_bomb_stops_at_the_limit(empty_client: Client) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert refusal(empty_client, bomb, **{"content-encoding": "gzip"})[:2] == (413, "too_large")


def test_cut_or_foreign_compression_is_refused(empty_client: Client, event: dict[str, Any]) -> None:
    body = gzip.compress(json.dumps(event).encode())
    assert refusal(empty_client, body[:-4], **{"content-encoding": "gzip"})[:2] == (400, "invalid_encoding")
    assert refusal(empty_client, body, **{"content-encoding": "br"})[:2] == (415, "unsupported_content_type")


def test_gzip_body_is_recorded(client: Client, event: dict[str, Any]) -> None:
    headers = {**JSON_TYPE, "content-encoding": "gzip"}
    assert client.post("/v1/events", content=gzip.compress(json.dumps(event).encode()), headers=headers).is_success
