"""DESIGN §13: the owner's page for the job, a participant's own page for its execution; commands never change a job."""

from tests.projections.tape import participant, state
from tests.queries.bench import Bench

GUEST = "00000000-0000-7000-8000-0000000000bb"


def test_every_fact_says_where_it_comes_from(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), round_number=3))
    job = bench.get("/v1/jobs/j1")
    assert job["round"] == {"value": 3, "reason": None, "position": 1}
    assert job["created_at"] == {"value": None, "reason": "not reported", "position": 1}
    assert job["as_of_position"] == 1


def test_owner_counts_before_guest_that_was_heard_later(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), round_number=3))
    bench.record("state.reported", state(participant("p2", local=True), role="guest", round_number=2), recorder=GUEST)
    assert bench.get("/v1/jobs/j1")["round"]["value"] == 3


def test_own_page_counts_for_execution(bench: Bench) -> None:
    own = state(participant("p2", local=True, backend="wasm-cpu"), role="guest")
    bench.record("state.reported", own, recorder=GUEST)
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", backend="webgpu")))
    execution = bench.get("/v1/jobs/j1/participants/p2")["execution"]
    assert execution["backend"] == {"value": "wasm-cpu", "reason": None, "position": 1}


def test_gpu_budget_is_a_limit_and_no_measurement(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    found = bench.get("/v1/jobs/j1/participants/p1")
    assert found["limits"]["gpu_memory_budget_mib"]["value"] == 512
    assert "gpu_memory_budget_mib" not in found["execution"]


def test_command_changes_no_job_however_it_returns(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), phase="running"))
    bench.record("command.called", {"name": "stop", "arguments": []})
    returned = {"name": "stop", "outcome": "ok", "duration_ms": 4}
    bench.record("command.returned", returned, causation_id="00000000-0000-7000-8000-000000000002")
    assert bench.get("/v1/jobs/j1")["phase"]["value"] == "running"


def test_refused_command_keeps_its_reason(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    called = bench.record("command.called", {"name": "start", "arguments": [1]})
    error = {"name": "start", "outcome": "error", "error_code": "wrong_state", "error_message": "job is running"}
    returned = bench.record("command.returned", error, causation_id="00000000-0000-7000-8000-000000000002")
    [command] = bench.get("/v1/jobs/j1/commands", outcome="error")["commands"]
    assert command["error"] == {"code": "wrong_state", "message": "job is running"}
    assert (command["called_position"], command["returned_position"]) == (called, returned)
    assert command["duration_ms"] == {"value": None, "reason": "not reported", "position": returned}
    [before] = bench.get("/v1/jobs/j1/commands", as_of=called)["commands"]
    assert (before["outcome"], before["error"], before["arguments"]) == ("open", None, [1])


def test_same_id_on_two_sites_asks_for_the_site(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), round_number=1))
    bench.record("state.reported", state(participant("p1", local=True), round_number=9), site="https://b.example",
                 recorder=GUEST)  # fmt: skip
    refused = bench.get("/v1/jobs/j1", expect=409)
    assert (refused["code"], refused["sites"]) == ("ambiguous_job", ["https://b.example", "https://lab.example"])
    assert bench.get("/v1/jobs/j1", site="https://b.example")["round"]["value"] == 9
    assert [job["site"] for job in bench.get("/v1/jobs")["jobs"]] == ["https://lab.example", "https://b.example"]


def test_list_pages_join_while_jobs_are_added(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.record("state.reported", state(participant("p1", local=True)), stream=f"job-{name}")
    first = bench.get("/v1/jobs", limit=2)
    bench.record("state.reported", state(participant("p1", local=True)), stream="job-d")
    second = bench.get("/v1/jobs", limit=2, cursor=first["next"])
    assert [job["id"] for job in first["jobs"] + second["jobs"]] == ["a", "b", "c"]
    assert second["next"] is None


def test_unknown_parameter_is_refused_with_those_that_exist(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    refused = bench.get("/v1/jobs/j1", expect=422, as_off=3)
    assert refused["code"] == "unknown_parameter"
    assert refused["allowed"] == ["as_of", "cursor", "site", "wait_for"]


def test_unchanged_answer_is_304(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    tag = bench.client.get("/v1/jobs/j1").headers["etag"]
    again = bench.client.get("/v1/jobs/j1", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_list_comes_as_lines_when_asked_for(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), participant("p2")))
    lines = bench.client.get("/v1/jobs/j1/participants", headers={"accept": "application/x-ndjson"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert len(lines.text.splitlines()) == 2


def test_event_comes_back_as_received(bench: Bench) -> None:
    body = b'{"job": {"id":"j1"}, "participants":[],  "big": 18446744073709551616123}'
    bench.record("state.reported", body)
    response = bench.client.get("/v1/events/1")
    assert body in response.content
    [event] = bench.get("/v1/jobs/j1/events", type="state.reported")["events"]
    assert event["stream_position"] == 1
    assert bench.get("/v1/events/2", expect=404)["code"] == "event_not_found"
