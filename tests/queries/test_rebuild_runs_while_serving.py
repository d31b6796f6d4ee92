"""A rebuild asked for over HTTP runs beside the live views, shows how far it is, and says why it failed."""

import pytest

from service.projections import rebuilder as rebuilding
from service.projections.rebuilder import Rebuilder
from service.settings import Settings
from tests.projections.tape import participant, state
from tests.queries.bench import Bench


def test_rebuild_gives_the_same_answers_and_its_end_is_remembered(bench: Bench) -> None:
    for round_number in range(1, 30):
        bench.record("state.reported", state(participant("p1", local=True), round_number=round_number))
    before = bench.get("/v1/jobs/j1")
    assert bench.get("/v1/rebuilds")["state"] == "none"
    started = bench.client.post("/v1/rebuilds")
    assert started.status_code == 202
    bench.rebuilder.wait()
    report = bench.get("/v1/rebuilds")
    assert (report["state"], report["position"], report["head"], report["error"]) == ("done", 29, 29, None)
    assert bench.get("/v1/jobs/j1") == before


def test_failed_rebuild_says_why_and_leaves_the_live_views(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))

    def full(*_: object) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr(rebuilding, "rebuild", full)
    rebuilder = Rebuilder(bench.views, bench.store, Settings(), bench.clock)
    rebuilder.start()
    assert (rebuilder.wait().state, rebuilder.report.error) == ("failed", "OSError: no space left on device")
    assert bench.get("/v1/jobs/j1")["as_of_position"] == 1
