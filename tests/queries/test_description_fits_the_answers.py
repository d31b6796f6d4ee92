"""schemathesis asks every GET of the views what the machine-readable description allows, and holds answers to it."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.app import create_app
from service.settings import Settings
from tests.projections.tape import participant, state

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ADDRESS = "http://127.0.0.1:7400"
Client = TestClient[Litestar]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The whole service, with one snapshot in it."""
    with TestClient(create_app(Settings(data=str(tmp_path_factory.mktemp("described")))), base_url=ADDRESS) as client:
        event = {
            "id": "01976b1e-0000-7000-8000-000000000001", "type": "state.reported", "schema_version": 1,
            "stream": "job-j1", "observed_at": "2026-12-01T05:00:00.123Z", "data": state(participant("p1", local=True)),
            "source": {"recorder": "01976b1e-0000-7000-8000-0000000000aa", "seq": 1, "site": "https://lab.example"},
        }  # fmt: skip
        posted = client.post(
            "/v1/events", content=msgspec.json.encode(event), headers={"content-type": "application/json"}
        )
        assert posted.status_code == 201, posted.text
        yield client


@pytest.fixture(scope="module")
def operations(client: Client) -> list[Any]:
    """Every GET of the views, as the description tells it; the live tail never ends and has tests of its own."""
    description = schemathesis.openapi.from_dict(client.get("/schema/openapi.json").json())
    views = description.include(method="GET", tag="views").exclude(path="/v1/live")
    found = [result.ok() for result in views.get_all_operations() if isinstance(result, Ok)]
    assert len(found) > 15
    return found


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_view_answers_as_described(data: st.DataObject, operations: list[Any], client: Client) -> None:
    case = data.draw(data.draw(st.sampled_from(operations)).as_strategy())
    request = case.as_transport_kwargs(base_url=ADDRESS)
    headers = {name: value for name, value in (request.get("headers") or {}).items() if name.lower() != "host"}
    response = client.request(request["method"], request["url"], params=request.get("params"), headers=headers)
    case.validate_response(response, checks=CHECKS)
