"""A short job with real processes and a real service: the same checkpoints as in one process, and a true silence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.demo.coordinator import Coordinator, Surroundings
from service.demo.crew import Crew
from service.demo.desk import Wires
from service.demo.incidents import Incidents
from service.demo.job_plan import PARTICIPANTS, SITE, JobPlan
from service.demo.lookback import JobFound, look_back
from service.demo.package_builder import build_package
from service.demo.rest import Rest
from service.demo.service_process import ServiceProcess
from service.demo.shards import dirichlet_shards, load_digits, split
from service.domain.aggregation import FedAvgM
from service.domain.times import system_clock
from service.recording.client import Recorder
from service.settings import Settings

PLAN = JobPlan(
    id="brief", rule=FedAvgM(momentum=0.7), rounds=2, incidents=Incidents(joins={"p6": 2}, suspended={"p5": 2})
)
SEED = 11


class Recorded:
    """What the coordinator says of its job, and what the record says of it."""

    def __init__(self, digests: list[str], job: JobFound, recorders: list[dict[str, Any]]) -> None:
        self.digests = digests
        self.job = job
        self.recorders = recorders


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder: Path = tmp_path_factory.mktemp("data")
    training, validation = split(load_digits(), SEED)
    shards = dirichlet_shards(training, len(PARTICIPANTS), SEED)
    with ServiceProcess(Settings(data=str(folder))) as service:
        with Crew(shards, PLAN, SEED, service.url) as crew:
            service.wait_until_ready()
            wires = Wires(crew.switchboard, crew.suspender, system_clock)
            around = Surroundings(PARTICIPANTS, wires, build_package(), validation, SEED)
            digests = Coordinator(PLAN, around, Recorder(service.url, SITE, PLAN.id)).run()
        with httpx.Client(base_url=service.url, timeout=60) as client:
            rest = Rest(client)
            [job] = look_back(rest, rest.get("/health")["head"])
            recorders = rest.get(f"/v1/jobs/{PLAN.id}/recorders")["recorders"]
        service.stop()
    return Recorded(digests, job, recorders)


def test_checkpoints_are_the_same(recorded: Recorded, play_job: Callable[[JobPlan, int], Any]) -> None:
    assert recorded.digests == play_job(PLAN, SEED).digests


def test_record_has_every_checkpoint_archived_and_sound(recorded: Recorded) -> None:
    assert [checkpoint["sha256"] for checkpoint in recorded.job.checkpoints] == recorded.digests
    assert all(checkpoint["is_usable"] for checkpoint in recorded.job.checkpoints)


def test_stopped_process_is_silent_in_the_record(recorded: Recorded) -> None:
    [stale] = [incident for incident in recorded.job.incidents if incident.kind == "went-stale"]
    assert (stale.participant, stale.round) == ("p5", 2)


def test_seven_recorders_lost_nothing(recorded: Recorded) -> None:
    assert len(recorded.recorders) == 7
    assert all(recorder["gaps"] == [] for recorder in recorded.recorders)
