"""A page of another site cannot use a browser to reach the service on this machine (F42)."""

from typing import Any

import pytest
from litestar.testing import TestClient

from service.app import create_app
from service.errors import SetupError
from service.settings import Settings
from tests.ingest.conftest import BASE_URL, Client


def test_unknown_host_is_refused_and_the_setting_named(client: Client) -> None:
    for path in ("/health", "/nowhere"):
        answer = client.get(path, headers={"host": "evil.example"})
        assert (answer.status_code, answer.json()["code"]) == (400, "host_not_allowed")
        assert "RETRACE_ALLOWED_HOSTS" in answer.json()["detail"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
def test_foreign_origin_changes_nothing(client: Client, event: dict[str, Any], origin: str) -> None:
    answer = client.post("/v1/events", json=event, headers={"origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_not_allowed")
    assert "access-control-allow-origin" not in client.get("/health", headers={"origin": origin}).headers


def test_own_origin_may_send(client: Client, event: dict[str, Any]) -> None:
    assert client.post("/v1/events", json=event, headers={"origin": BASE_URL}).status_code == 201


def test_configured_host_and_origin_are_let_in(settings: Settings, event: dict[str, Any]) -> None:
    site = "https://lab.example"
    opened = Settings(data=settings.data, allowed_hosts="retrace.lab", allowed_origins=site)
    with TestClient(create_app(opened), base_url="http://retrace.lab") as client:
        answer = client.post("/v1/events", json=event, headers={"origin": site})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (201, site)
        preflight = client.options(
            "/v1/events", headers={"origin": site, "access-control-request-method": "POST"}
        )  # fmt: skip
        assert preflight.headers["access-control-allow-origin"] == site


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "retrace.example", "::"])
def test_reachable_address_refuses_to_start(settings: Settings, host: str) -> None:
    with pytest.raises(SetupError, match="without API keys"):
        create_app(Settings(data=settings.data, host=host))
