"""What passes the gate is kept byte for byte; what is sent twice is stored once."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from service.domain.secrets import is_secret_key
from service.errors import BadInput
from service.ingest.payloads import read_events
from service.settings import Settings
from tests.ingest.conftest import Client
from tests.ingest.wire import NDJSON, wire_event, wire_text

JSON_TYPE = {"content-type": "application/json"}
LIMITS = Settings()
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
names = texts.filter(lambda name: not is_secret_key(name))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


def stored_data(client: Client, position: int) -> str:
    """The text of `data` as the service gives it back."""
    text = client.get(f"/v1/events/{position}", params={"wait_for": position}).text
    start = text.index('"data":') + len('"data":')
    return text[start : json.JSONDecoder().raw_decode(text, start)[1]]


def test_seven_kinds_of_value_stay_seven(client: Client) -> None:
    data = '{"a":0,"b":1.50,"c":null,"d":"NaN","e":{"non_finite":"Infinity"},"f":{"non_finite":"-Infinity"},"g":1E+2}'
    client.post("/v1/events", content=wire_text(1, data.encode()), headers=JSON_TYPE)
    assert stored_data(client, 1) == data


def test_large_integers_keep_every_digit(client: Client) -> None:
    data = '{"id":9007199254740993,"assignmentIds":[1285704473650888702,18446744073709551615,123456789012345678901]}'
    client.post("/v1/events", content=wire_text(1, data.encode()), headers=JSON_TYPE)
    assert stored_data(client, 1) == data


@pytest.mark.parametrize(
    "key",
    [
        "val loss",
        "val/loss",
        "val%2Floss",
        "损失",
        "\U0001f469\u200d\U0001f52c",
        "\u00e9",
        "e\u0301",
        "..",
        "",
        "__proto__",
    ],
)
def test_odd_names_survive_unchanged(client: Client, key: str) -> None:
    response = client.post("/v1/events", json=wire_event(1, data={"metrics": {key: 1}}))
    assert response.status_code == 201
    assert json.loads(stored_data(client, 1)) == {"metrics": {key: 1}}


def test_redelivery_gets_the_original_receipts_with_200(client: Client) -> None:
    batch = "\n".join(json.dumps(wire_event(number)) for number in range(1, 11))
    first = client.post("/v1/events", content=batch, headers={"content-type": NDJSON})
    again = client.post("/v1/events", content=batch, headers={"content-type": NDJSON})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["receipts"] == first.json()["receipts"]
    assert again.json()["head"] == 10


def test_same_id_with_other_content_is_a_conflict(client: Client, event: dict[str, Any]) -> None:
    client.post("/v1/events", json=event)
    response = client.post("/v1/events", json={**event, "data": {"other": True}})
    assert (response.status_code, response.json()["code"], response.json()["position"]) == (409, "event_id_conflict", 1)


def test_expected_version_conflict_says_both_versions(client: Client, event: dict[str, Any]) -> None:
    client.post("/v1/events", json=event)
    response = client.post("/v1/events", params={"expected_version": 4}, json=wire_event(2))
    problem = response.json()
    assert (response.status_code, problem["code"]) == (409, "version_conflict")
    assert (problem["expected"], problem["actual"]) == (4, 1)


def test_secrets_are_removed_and_nothing_else_is_touched(client: Client) -> None:
    sent = (
        b'{"name":"join", "arguments":{"invitationCode" : "ABC-123","n":1.50, "api_key":{"password":[1]},"token":null}}'
    )
    client.post("/v1/events", content=wire_text(1, sent), headers=JSON_TYPE)
    again = client.post("/v1/events", content=wire_text(1, sent), headers=JSON_TYPE)

    kept = '{"name":"join", "arguments":{"invitationCode" : "[removed]","n":1.50, "api_key":"[removed]","token":null}}'
    assert stored_data(client, 1) == kept
    assert again.status_code == 200


def test_escaped_secret_key_is_found(client: Client) -> None:
    client.post("/v1/events", content=wire_text(1, b'{"\\u0074oken":"x"}'), headers=JSON_TYPE)
    assert stored_data(client, 1) == '{"\\u0074oken":"[removed]"}'


@given(documents=st.lists(st.dictionaries(names, documents, max_size=5), min_size=1, max_size=4))
def test_any_document_that_passes_is_kept_byte_for_byte(documents: list[dict[str, Any]]) -> None:
    sent = [json.dumps(document, ensure_ascii=False, indent=1).encode() for document in documents]
    body = b"[" + b",\n".join(wire_text(at + 1, text) for at, text in enumerate(sent)) + b"]"
    assert [event.data for event in read_events(body, "application/json", LIMITS)] == sent


@given(data=st.data())
def test_mutated_bodies_are_read_or_refused_by_a_written_rule(data: st.DataObject) -> None:
    body = bytearray(wire_text(1, b'{"a":[1,-2.5e3,"\\u00e9\\"x"],"token":"t","b":{"a":null}}'))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        piece = data.draw(
            st.sampled_from([b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\0", b"\xff", b"9", b"e9"])
        )
        body[at : at + data.draw(st.integers(0, 3))] = piece
    with suppress(BadInput):
        read_events(bytes(body), data.draw(st.sampled_from(["application/json", NDJSON])), LIMITS)


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200), content_type=st.sampled_from(["application/json", NDJSON]))
def test_no_bytes_give_a_500(client: Client, body: bytes, content_type: str) -> None:
    response = client.post("/v1/events", content=body, headers={"content-type": content_type})
    assert response.status_code in (201, 400, 413)
