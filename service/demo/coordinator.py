"""The aggregation server of the demo: it plays a job round by round, and saves a checkpoint after each.

A round waits for everyone, however slow the machine is; only a participant whose process the plan has stopped is left
behind, and only once it is stale. So one seed gives one set of checkpoints on one machine, whatever else it is doing.
"""

from typing import NamedTuple

from service.artifacts.packing import PackedModule
from service.artifacts.tensor_file import read_tensors
from service.demo.desk import Desk, Wires
from service.demo.job_plan import JobPlan
from service.demo.messages import Assign, OpenJob, Result
from service.demo.model_files import (
    RoundScores,
    SavedRound,
    as_metrics,
    execution_files,
    initial_checkpoint,
    mean_scores,
    round_checkpoint,
    validation_file,
)
from service.demo.page import MetricLabel, Page
from service.demo.published import JobWords, Published
from service.demo.rounds import Assignment, PageRefusal, plan_round
from service.demo.training import Examples, Weights, evaluate, initial_weights, rounded
from service.domain.aggregation import NO_STATE, Update, aggregate
from service.domain.canonical import sha256_hex
from service.recording.client import Recorder

STALE_MARGIN_MS = 1500
"""How much longer than the limit a stopped participant is left alone, so that the gap shows in the record."""


class Surroundings(NamedTuple):
    """What all jobs of one demo share."""

    participants: tuple[str, ...]
    wires: Wires
    package: PackedModule
    validation: Examples
    seed: int


class Saved(NamedTuple):
    """A checkpoint as the coordinator holds it: bytes, their digest, and the model inside."""

    data: bytes
    sha256: str
    weights: Weights


class Coordinator:
    """Runs one job from its creation to its last round."""

    def __init__(self, plan: JobPlan, around: Surroundings, recorder: Recorder) -> None:
        self._plan = plan
        self._around = around
        self._recorder = recorder
        self._module_sha256 = around.package.module_sha256
        self._newest = self._initial()
        self._optimizer = NO_STATE
        self._published = Published(self._words(), around.wires.clock)
        self._page = Page(recorder, around.wires.clock, None, {})
        self._saved_bytes = len(self._newest.data)
        self._desk = Desk(plan, self._published, self._page, around.wires)

    def run(self) -> list[str]:
        """The whole job. Returns the digests of its checkpoints, round 0 first."""
        self._create()
        late = self._plan.incidents.joins
        self._admit([participant for participant in self._around.participants if participant not in late])
        self._start()
        digests = [self._newest.sha256]
        for number in range(1, self._plan.rounds + 1):
            self._play(number)
            digests.append(self._newest.sha256)
        self._finish()
        return digests

    def _create(self) -> None:
        """Create the job and archive what it starts from."""
        with self._recorder.call("createJob", {"settings": self._plan.settings()}) as call:
            call.result = {"jobId": self._plan.id}
        package = self._around.package
        self._recorder.upload_artifact("module", package.module_bytes)
        for role, data in (("wasm", package.wasm_bytes), ("shader-archive", package.shader_archive_bytes)):
            if data is not None:
                self._recorder.upload_artifact(role, data)
        self._recorder.upload_artifact("validation", validation_file(self._around.validation))
        self._recorder.upload_artifact("checkpoint", self._newest.data, round=0)
        self._desk.model = self._newest.data
        self._desk.snapshot()

    def _start(self) -> None:
        with self._recorder.call("start", {"job": self._plan.id}):
            self._published.start()
        self._desk.snapshot()

    def _start_again(self) -> None:
        """The owner calls `start` for a job that runs; the API refuses, and nothing changes."""
        try:
            self._start()
        except PageRefusal:
            self._desk.snapshot()

    def _admit(self, participants: list[str]) -> None:
        """Open the job to the participants and wait until they have joined."""
        for participant in participants:
            leaves_after = self._plan.incidents.leaves.get(participant)
            self._desk.send(participant, OpenJob(self._plan.id, self._published.view(), leaves_after))
        self._desk.serve_until(lambda: set(participants) <= set(self._published.joined), f"{participants} to join")

    def _play(self, number: int) -> None:
        """One round, with whatever the plan lets happen in it."""
        incidents, desk = self._plan.incidents, self._desk
        self._admit(incidents.joining_in(number))
        if incidents.start_again_in == number:
            self._start_again()
        self._assign(number)
        stopped = incidents.suspended_in(number)
        desk.serve_until(lambda: desk.round.outstanding() <= stopped, f"the results of round {number}")
        desk.serve_until(lambda: all(self._is_long_stale(who) for who in stopped), f"{stopped} to be stale")
        self._save(number, desk.round.close())
        desk.let_go_on(stopped)
        desk.serve_until(lambda: stopped <= desk.refused, f"the late results of {stopped}")
        leaving = set(incidents.leaving_after(number))
        desk.serve_until(lambda: not leaving & set(self._published.joined), f"{leaving} to leave")

    def _assign(self, number: int) -> None:
        units = {
            participant: self._plan.incidents.units(participant, number, self._desk.examples[participant])
            for participant in self._published.joined
        }
        self._desk.round = plan_round(self._plan.id, number, units)
        self._desk.model = self._newest.data
        for assignment in self._desk.round.assignments:
            self._desk.send(
                assignment.participant,
                Assign(assignment.id, number, assignment.units, self._newest.sha256, len(self._newest.data)),
            )
        self._desk.snapshot()

    def _save(self, number: int, counted: list[tuple[Assignment, Result]]) -> None:
        """Aggregate what counts, archive the checkpoint, and publish the round."""
        before = self._newest
        updates = [Update(read_tensors(result.weights), result.examples) for _, result in counted]
        outcome = aggregate(self._plan.rule, before.weights, updates, self._optimizer)
        weights = rounded(outcome.weights)
        training = mean_scores([result for _, result in counted])
        scores = RoundScores(training, evaluate(weights, self._around.validation))
        saved = SavedRound(number, weights, outcome.state, before.sha256, counted, scores)
        data = round_checkpoint(self._plan, self._module_sha256, saved)
        with self._recorder.call("exportCheckpoint", {"round": number}) as call:
            sha256 = self._recorder.upload_artifact("checkpoint", data, round=number)
            call.result = {"sha256": sha256, "bytes": len(data)}
        self._newest, self._optimizer = Saved(data, sha256, weights), outcome.state
        self._saved_bytes += len(data)
        self._page.storage = {"usedBytes": self._saved_bytes}
        self._published.add_checkpoint(self._listed(saved, data, sha256))
        self._desk.snapshot()

    def _listed(self, saved: SavedRound, data: bytes, sha256: str) -> dict[str, object]:
        """The checkpoint as the pages list it."""
        return {
            "version": self._plan.checkpoint_format(saved.number), "round": saved.number, "sha256": sha256,
            "parentSha256": saved.parent_sha256, "bytes": len(data),
            "metrics": {
                "training": as_metrics(saved.scores.training), "validation": as_metrics(saved.scores.validation),
            },
        }  # fmt: skip

    def _is_long_stale(self, participant: str) -> bool:
        return self._published.silent_ms(participant) > self._plan.stale_after_ms + STALE_MARGIN_MS

    def _finish(self) -> None:
        """Show everyone the end, wait until all pages are recorded to their last event, and end the own page."""
        self._published.finish()
        self._desk.snapshot()
        for participant in self._published.joined:
            self._desk.dismiss(participant)
        everyone = set(self._desk.examples)
        self._desk.serve_until(lambda: everyone <= self._desk.closed, f"{everyone} to close the job")
        self._page.report()
        self._recorder.close()

    def _initial(self) -> Saved:
        weights = initial_weights(self._around.seed)
        data = initial_checkpoint(self._plan, self._module_sha256, weights)
        return Saved(data, sha256_hex(data), weights)

    def _words(self) -> JobWords:
        return JobWords(
            self._plan.id, self._plan.rounds, self._plan.settings(), execution_files(self._around.package),
            [MetricLabel(metric.key, metric.label, metric.direction) for metric in self._around.package.module.metrics],
            self._newest.sha256,
        )  # fmt: skip
