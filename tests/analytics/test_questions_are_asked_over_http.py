"""Questions through the public door: the list, an answer, its formats, and refusals that say what would be right."""

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.app import Service, app_of, create_app
from service.domain.times import system_clock
from service.queries import question_routes
from service.settings import Settings
from tests.ingest.wire import wire_event

Client = TestClient[Litestar]
FORMULA = "=cmd|' /C calc'!A0"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with TestClient(create_app(settings), base_url="http://127.0.0.1:7400") as client:
        refused = {"name": "start", "outcome": "error", "error_code": "wrong_state", "error_message": FORMULA}
        events = [
            wire_event(1, type="command.called", data={"name": "start", "arguments": {}}),
            wire_event(2, type="command.returned", data=refused, causation_id=wire_event(1)["id"]),
            wire_event(3, type="command.called", data={"name": "stop"}),
        ]
        client.post("/v1/events", json=events).raise_for_status()
        yield client


def test_questions_are_listed_with_their_words_and_parameters(client: Client) -> None:
    found = {question["name"]: question for question in client.get("/v1/questions").json()["questions"]}
    assert {"speed-by-backend", "stage-breakdown", "stale-episodes", "refused-commands", "metric-curves"} <= set(found)
    assert found["metric-curves"]["parameters"][0]["name"] == "job"
    assert all(question["question"].endswith("?") and question["read"] for question in found.values())


def test_refused_command_is_found_at_once(client: Client) -> None:
    answer = client.get("/v1/questions/refused-commands", params={"job": "j1"}).json()
    [row] = answer["rows"]
    assert (row["command"], row["error_code"], row["error_message"]) == ("start", "wrong_state", FORMULA)
    assert (row["called_position"], row["returned_position"], row["duration_s"]) == (1, 2, None)
    assert answer["as_of_position"] == 3


def test_command_that_never_returned_is_not_called_failed(client: Client) -> None:
    [row] = client.get("/v1/questions/unreturned-commands").json()["rows"]
    assert (row["command"], row["called_position"]) == ("stop", 3)


def test_formats_hold_the_same_row(client: Client) -> None:
    def body(name: str) -> bytes:
        return client.get("/v1/questions/refused-commands", params={"format": name}).content

    [row] = json.loads(body("json"))
    assert json.loads(body("ndjson")) == row
    [cells] = csv.DictReader(io.StringIO(body("csv").decode()))
    assert cells["error_message"] == "'" + FORMULA
    assert cells["duration_s"] == ""
    assert pa.ipc.open_stream(body("arrow")).read_all().column("error_message").to_pylist() == [FORMULA]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/questions/nobody-asked-this", 404, "question_not_found"),
        ("/v1/questions/..%2f..%2fetc%2fpasswd", 404, "not_found"),
        ("/v1/questions/metric-curves", 400, "invalid_field"),
        ("/v1/questions/metric-curves?job=j1&jobb=j2", 422, "unknown_parameter"),
        ("/v1/questions/speed-by-backend?job=j1&bucket_s=ten", 400, "invalid_field"),
        ("/v1/questions/speed-by-backend?job=j1&bucket_s=1_0", 400, "invalid_field"),
        ("/v1/questions/stale-episodes?stale_after_s=nan", 400, "invalid_field"),
        ("/v1/questions/stale-episodes?stale_after_s=1e999", 400, "invalid_field"),
        ("/v1/questions/refused-commands?format=xls", 422, "unknown_parameter"),
    ],
)
def test_wrong_questions_are_refused(client: Client, path: str, status: int, code: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("job", ["' OR 1=1 --", "j1') FROM read_text('/etc/hostname') --", "j1;DROP TABLE commands"])
def test_parameters_are_bound_and_never_pasted(client: Client, job: str) -> None:
    answer = client.get("/v1/questions/refused-commands", params={"job": job})
    assert (answer.status_code, answer.json()["rows"]) == (200, [])


def test_job_called_null_is_a_job_like_any_other(client: Client) -> None:
    """F38: only leaving a parameter out asks for all jobs."""
    assert client.get("/v1/questions/refused-commands", params={"job": "null"}).json()["rows"] == []


def test_question_in_the_data_folder_is_found(client: Client, settings: Settings) -> None:
    folder = settings.folder / "questions"
    folder.mkdir()
    text = "-- question: How many events are there?\n-- read: One number.\nSELECT count(*) AS events FROM events\n"
    (folder / "how-many.sql").write_text(text)
    answer: dict[str, Any] = client.get("/v1/questions/how-many").json()
    assert answer["rows"] == [{"events": 3}]


def test_lake_that_stands_still_is_said_and_no_old_answer_given(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_routes, "CATCH_UP_S", 0.0)
    service = Service(settings, system_clock, os.urandom)
    service.loops = [loop for loop in service.loops if loop.health.name != "lake"]
    with TestClient(app_of(service), base_url="http://127.0.0.1:7400") as client:
        client.post("/v1/events", json=wire_event(1)).raise_for_status()
        answer = client.get("/v1/questions/run-overview")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers
