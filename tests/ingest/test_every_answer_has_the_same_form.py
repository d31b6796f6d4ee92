"""Errors are problem+json whoever refuses; live tails resume; the last head is signed when the service ends."""

import json
from typing import Any

import pytest
from litestar import get
from litestar.testing import TestClient

from service import app as wiring
from service.app import create_app
from service.audit.log_key import last_note
from service.settings import Settings
from tests.ingest.conftest import BASE_URL, Client
from tests.ingest.wire import wire_event


@get("/broken")
async def broken() -> None:
    raise RuntimeError("secret detail")


def test_unforeseen_error_is_a_problem_without_its_details(settings: Settings, monkeypatch: Any) -> None:
    monkeypatch.setattr(wiring, "ROUTE_HANDLERS", (*wiring.ROUTE_HANDLERS, broken))
    with TestClient(create_app(settings), base_url=BASE_URL, raise_server_exceptions=False) as client:
        answer = client.get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text


def test_framework_refusals_have_codes_too(client: Client) -> None:
    assert client.get("/nowhere").json()["code"] == "not_found"
    assert client.delete("/v1/events").json()["code"] == "method_not_allowed"
    assert client.post("/v1/events", content=b" " * 11_000_000).json()["code"] == "too_large"
    assert client.get("/v1/jobs", params={"limit": "many"}).json()["code"] == "unknown_parameter"


def test_health_names_store_views_and_loops(client: Client, event: dict[str, Any]) -> None:
    client.post("/v1/events", json=event)
    client.get("/v1/jobs", params={"wait_for": 1})
    health = client.get("/health").json()
    assert (health["head"], health["views_position"], health["is_ready"]) == (1, 1, True)
    assert {loop["name"]: loop["last_error"] for loop in health["loops"]}.items() >= {"views": None}.items()


def positions(text: str) -> list[int]:
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


def test_live_tail_goes_on_after_the_last_event_seen(client: Client) -> None:
    client.post("/v1/events", json=[wire_event(number) for number in range(1, 6)])
    assert positions(client.get("/v1/live", params={"after": 0, "limit": 3}).text) == [1, 2, 3]
    resumed = client.get("/v1/live", params={"limit": 2}, headers={"last-event-id": "3"})
    assert positions(resumed.text) == [4, 5]


def test_live_event_is_the_event(client: Client, event: dict[str, Any]) -> None:
    client.post("/v1/events", json=event)
    text = client.get("/v1/live", params={"after": 0, "limit": 1}).text
    data = next(line[6:] for line in text.splitlines() if line.startswith("data: "))
    assert json.loads(data)["data"] == event["data"]


def test_last_head_is_signed_at_the_end(settings: Settings, event: dict[str, Any]) -> None:
    with TestClient(create_app(settings), base_url=BASE_URL) as client:
        client.post("/v1/events", json=event)
    note = last_note(settings.folder)
    assert note is not None
    assert note.splitlines()[:2] == [settings.log_origin, "1"]


@pytest.mark.parametrize("after", ["-1", "999999999999999999999", "x"])
def test_live_tail_from_no_position_is_refused(empty_client: Client, after: str) -> None:
    answer = empty_client.get("/v1/live", params={"after": after})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_parameter")
