"""A request for a replay is an event; asking the same again gives the same replay until `again` is said."""

import msgspec

from service.projections.runner import catch_up
from tests.projections.tape import participant, state
from tests.queries.bench import Bench

SHA256 = f"{7:064x}"


def known_checkpoint(bench: Bench) -> None:
    said = {"round": 3, "sha256": SHA256}
    bench.record("state.reported", state(participant("p1", local=True), checkpoints=[said]))


def test_request_is_appended_to_the_job_and_waits(bench: Bench) -> None:
    known_checkpoint(bench)
    response = bench.client.post(f"/v1/checkpoints/{SHA256}/replays")
    assert response.status_code == 202
    asked = response.json()
    catch_up(bench.views, bench.store)
    [listed] = bench.get("/v1/jobs/j1/replays")["replays"]
    assert (listed["id"], listed["state"], listed["round"]) == (asked["id"], "waiting", 3)
    assert bench.get(f"/v1/replays/{asked['id']}")["verdict"] is None


def test_same_request_gives_the_same_replay_until_again_is_said(bench: Bench) -> None:
    known_checkpoint(bench)
    first = bench.client.post(f"/v1/checkpoints/{SHA256}/replays").json()
    catch_up(bench.views, bench.store)
    repeated = bench.client.post(f"/v1/checkpoints/{SHA256}/replays")
    assert (repeated.status_code, repeated.json()["id"]) == (200, first["id"])
    anew = bench.client.post(f"/v1/checkpoints/{SHA256}/replays", content=b'{"again":true}')
    assert anew.status_code == 202
    assert anew.json()["id"] != first["id"]


def test_verdict_joins_its_request(bench: Bench) -> None:
    known_checkpoint(bench)
    asked = bench.client.post(f"/v1/checkpoints/{SHA256}/replays", content=b'{"engine":"reference"}').json()
    judged = {"replay_id": asked["id"], "checkpoint_sha256": SHA256, "verdict": "reproduced",
              "result": {"engine": "reference", "loss": {"non_finite": "NaN"}}}  # fmt: skip
    position = bench.record("replay.judged", judged, recorder="service", site="retrace")
    found = bench.get(f"/v1/replays/{asked['id']}")
    assert (found["state"], found["verdict"], found["judged_position"]) == ("judged", "reproduced", position)
    assert found["result"]["loss"] == {"non_finite": "NaN"}
    assert bench.get(f"/v1/replays/{asked['id']}", as_of=asked["requested_position"])["verdict"] is None


def test_unknown_checkpoint_and_unknown_engine_are_refused(bench: Bench) -> None:
    assert bench.client.post(f"/v1/checkpoints/{SHA256}/replays").json()["code"] == "checkpoint_not_found"
    known_checkpoint(bench)
    refused = bench.client.post(f"/v1/checkpoints/{SHA256}/replays", content=msgspec.json.encode({"engine": "tpu"}))
    assert refused.json()["code"] == "invalid_field"
    assert bench.get("/v1/replays/none", expect=404)["code"] == "replay_not_found"
