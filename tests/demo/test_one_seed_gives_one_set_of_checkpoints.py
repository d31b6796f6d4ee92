"""Digests depend on the seed and on nothing else: not on the order of arrival, not on a clock."""

from collections.abc import Callable
from typing import Any

from service.artifacts.checkpoint_format import read_checkpoint
from service.demo.incidents import EVERYTHING, Incidents
from service.demo.job_plan import JobPlan
from service.domain.aggregation import FedAdam, FedAvg

SHORT = JobPlan(id="short", rule=FedAdam(eta=0.05), rounds=2, incidents=Incidents())


def test_same_seed_same_digests(play_afresh: Callable[[JobPlan, int], Any]) -> None:
    first, second = play_afresh(SHORT, 3), play_afresh(SHORT, 3)
    assert first.digests == second.digests
    assert len(set(first.digests)) == 3


def test_another_seed_gives_other_digests(play_job: Callable[[JobPlan, int], Any]) -> None:
    assert not set(play_job(SHORT, 3).digests) & set(play_job(SHORT, 4).digests)


def test_incidents_do_not_make_it_a_matter_of_luck(play_afresh: Callable[[JobPlan, int], Any]) -> None:
    plan = JobPlan(id="rough", rule=FedAvg(), rounds=7, incidents=EVERYTHING)
    assert play_afresh(plan, 3).digests == play_afresh(plan, 3).digests


def test_each_checkpoint_names_the_one_before_as_its_parent(play_job: Callable[[JobPlan, int], Any]) -> None:
    played = play_job(SHORT, 3)
    files = played.artifacts("owner", "checkpoint")
    assert [read_checkpoint(files[number]).parent_sha256 for number in (1, 2)] == played.digests[:2]


def test_first_rounds_are_saved_as_weights_only(play_job: Callable[[JobPlan, int], Any]) -> None:
    plan = JobPlan(id="formats", rule=FedAvg(), rounds=3, format_one_rounds=2, incidents=Incidents())
    files = play_job(plan, 3).artifacts("owner", "checkpoint")
    assert [read_checkpoint(files[number]).checkpoint_format for number in range(4)] == [1, 1, 1, 2]
