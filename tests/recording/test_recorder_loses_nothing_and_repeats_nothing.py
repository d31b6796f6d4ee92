"""What a recorder emits is recorded once and in order, whatever happens between it and the service."""

import math
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.errors import RecordingRefused, Unavailable
from service.recording.client import Recorder
from tests.recording.conftest import URL
from tests.recording.wire import Wire


def recorded(client: TestClient[Litestar]) -> list[dict[str, Any]]:
    head = client.get("/health").json()["head"]
    return [client.get(f"/v1/events/{p}", params={"wait_for": head}).json() for p in range(1, head + 1)]


def recorder_on(wire: Wire, job: str | None = "j1", **more: Any) -> Recorder:
    return Recorder(URL, "https://lab.example", job, transport=wire, **more)


def test_run_begins_at_one_has_no_hole_and_ends(client: TestClient[Litestar], wire: Wire) -> None:
    with recorder_on(wire) as recorder:
        for number in range(20):
            recorder.report_state({"round": number})
    events = recorded(client)
    assert [event["source"]["seq"] for event in events] == list(range(1, 23))
    assert (events[0]["type"], events[-1]["type"]) == ("recorder.started", "recorder.stopped")
    assert {event["stream"] for event in events} == {"job-j1"}


def test_close_says_how_many_were_acknowledged(wire: Wire) -> None:
    recorder = recorder_on(wire)
    recorder.report_state({})
    assert recorder.close() == 3


def test_cut_connections_and_overload_double_nothing(client: TestClient[Litestar], wire: Wire) -> None:
    wire.troubles = ["not heard", "not answered", "overloaded", "not answered"]
    with recorder_on(wire) as recorder:
        recorder.report_state({"round": 1})
        recorder.report_state({"round": 2})
    events = recorded(client)
    assert [event["source"]["seq"] for event in events] == [1, 2, 3, 4]


def test_repeated_batches_are_the_same_bytes(wire: Wire) -> None:
    wire.troubles = ["not heard", "not answered"]
    recorder_on(wire).close()
    assert wire.bodies[0] == wire.bodies[1] == wire.bodies[2]


def test_refusal_is_loud(wire: Wire) -> None:
    recorder = recorder_on(wire)
    recorder.emit("not a type", {})
    with pytest.raises(RecordingRefused, match="wanted words") as caught:
        recorder.flush()
    assert caught.value.details["problem"]["code"] == "invalid_field"
    with pytest.raises(RecordingRefused):
        recorder.close()


def test_flush_does_not_wait_for_ever(wire: Wire) -> None:
    wire.troubles = ["not heard"] * 1000
    recorder = recorder_on(wire)
    with pytest.raises(Unavailable):
        recorder.flush(timeout_s=0)
    with pytest.raises(Unavailable):
        recorder.close(timeout_s=0)


def test_command_is_called_and_returned(client: TestClient[Litestar], wire: Wire) -> None:
    with recorder_on(wire) as recorder, recorder.call("start", {"epochs": 12}) as call:
        call.result = {"started": True}
    called, returned = [event for event in recorded(client) if event["type"].startswith("command.")]
    assert called["data"] == {"name": "start", "arguments": {"epochs": 12}}
    assert returned["causation_id"] == called["id"]
    assert (returned["data"]["outcome"], returned["data"]["result"]) == ("ok", {"started": True})
    assert returned["data"]["duration_ms"] >= 0


def test_failing_command_is_recorded_and_its_error_goes_on(client: TestClient[Litestar], wire: Wire) -> None:
    def start(epochs: int) -> None:
        raise ValueError(f"{epochs} is not a phase")

    with recorder_on(wire) as recorder, pytest.raises(ValueError, match="3 is not"):
        recorder.wrap(start)(3)
    returned = next(event["data"] for event in recorded(client) if event["type"] == "command.returned")
    assert returned["outcome"] == "error"
    assert (returned["error_code"], returned["error_message"]) == ("ValueError", "3 is not a phase")


def test_non_finite_numbers_are_tagged_and_secrets_stay_home(client: TestClient[Litestar], wire: Wire) -> None:
    with recorder_on(wire) as recorder:
        recorder.report_state({"loss": [math.nan, math.inf, 0.0], "token": "abc"})
    assert b"abc" not in b"".join(wire.bodies)
    state = next(event["data"] for event in recorded(client) if event["type"] == "state.reported")
    assert state["loss"] == [{"non_finite": "NaN"}, {"non_finite": "Infinity"}, 0.0]


def test_artifact_arrives_despite_trouble(client: TestClient[Litestar], wire: Wire) -> None:
    with recorder_on(wire) as recorder:
        recorder.flush()
        wire.troubles = ["not answered", "overloaded"]
        digest = recorder.upload_artifact("update", b"bytes", round=4)
    assert client.get(f"/v1/artifacts/{digest}").content == b"bytes"
    assert [event["type"] for event in recorded(client)].count("artifact.archived") == 1


def test_without_a_job_events_go_to_the_recorders_own_stream(client: TestClient[Litestar], wire: Wire) -> None:
    with recorder_on(wire, job=None) as recorder:
        pass
    assert {event["stream"] for event in recorded(client)} == {f"recorder-{recorder.id}"}


def test_full_memory_thins_snapshots_and_says_so(client: TestClient[Litestar], wire: Wire) -> None:
    """The service hears nothing at first: only what fits is kept, and no command is lost."""
    wire.troubles = ["not heard"] * 3
    with recorder_on(wire, buffer_bytes_max=20_000) as recorder:
        for number in range(100):
            recorder.report_state({"round": number, "text": "x" * 500})
            if number % 25 == 0:
                recorder.emit("api.connected", {"number": number})
    events = recorded(client)
    kept = [event for event in events if event["type"] == "state.reported"]
    thinned = sum(event["data"]["count"] for event in events if event["type"] == "recorder.thinned")
    assert len(kept) + thinned == 100
    assert thinned > 0
    assert kept[-1]["data"]["round"] == 99
    assert len([event for event in events if event["type"] == "api.connected"]) == 4
    assert [event["source"]["seq"] for event in events] == list(range(1, len(events) + 1))
