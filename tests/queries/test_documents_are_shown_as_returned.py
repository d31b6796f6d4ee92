"""Saved jobs, storage and demos have no published schema; unknown types are counted and passed by."""

from tests.projections.tape import participant, state
from tests.queries.bench import Bench

STREAM = "recorder-00000000-0000-7000-8000-0000000000aa"


def test_documents_keep_their_history_and_every_byte(bench: Bench) -> None:
    bodies = [b'[{"id":"j1","anything":["schema",{"not":"published"}]}]', b'[ {"id": 18446744073709551616} ]']
    for body in bodies:
        bench.record("saved-jobs.reported", body, stream=STREAM)
    bench.record("storage.reported", {"usedBytes": 1}, stream=STREAM)
    response = bench.client.get("/v1/documents/saved-jobs")
    assert all(body in response.content for body in bodies)
    assert [row["position"] for row in response.json()["documents"]] == [1, 2]
    assert [row["position"] for row in bench.get("/v1/documents/saved-jobs", as_of=1)["documents"]] == [1]
    assert not bench.get("/v1/documents/saved-jobs", site="https://other.example")["documents"]


def test_unknown_kind_of_document_is_not_found(bench: Bench) -> None:
    assert "saved-jobs" in bench.get("/v1/documents/secrets", expect=404)["detail"]


def test_unknown_types_are_counted_and_passed_by(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    bench.record("something.new", {"any": "thing"})
    bench.record("something.new", b"3")
    job = bench.get("/v1/jobs/j1")
    assert (job["unknown_types"], job["incomplete_since"], job["last_position"]) == ({"something.new": 2}, None, 3)
    assert bench.get("/v1/jobs/j1", as_of=2)["unknown_types"] == {"something.new": 1}


def test_answer_can_wait_for_what_was_just_written(bench: Bench) -> None:
    position = bench.record("state.reported", state(participant("p1", local=True)))
    assert bench.get("/v1/jobs/j1", wait_for=position)["as_of_position"] == position
