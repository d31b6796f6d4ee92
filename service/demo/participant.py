"""A participant: a process of its own that downloads the model, trains its shard, uploads the result, and is a page.

Each job is a new recorder run. The process does what the coordinator assigns and nothing else; where it fails, its page
records how. This module knows no HTTP: the recorder comes in, and so do clock and link.
"""

import platform
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import msgspec
import numpy as np

from service.artifacts.checkpoint_format import read_checkpoint
from service.artifacts.tensor_file import write_tensors
from service.demo.links import Link
from service.demo.messages import (
    Assign,
    Closed,
    CloseJob,
    Download,
    Failed,
    Join,
    Leave,
    Model,
    OpenJob,
    Report,
    Result,
    Shut,
    ToParticipant,
    Verdict,
    View,
)
from service.demo.page import Document, Execution, Page
from service.demo.rounds import PageRefusal
from service.demo.training import Examples, LocalTraining, Weights, evaluate, local_steps, train
from service.domain.canonical import sha256_hex
from service.domain.times import Clock
from service.errors import DigestMismatch
from service.recording.client import Recorder

CPU = "numpy-cpu"


class Person(msgspec.Struct, frozen=True):
    """Who a participant is, and what was decided for it before it began. `number` counts from 1."""

    id: str
    name: str
    number: int
    seed: int
    training: LocalTraining
    wants_gpu: bool
    snapshot_interval_ms: int


class GpuAnswer(msgspec.Struct, frozen=True):
    """What became of asking for a GPU: whether there is one, and the error's own text."""

    is_available: bool
    reason: str


class Machine(NamedTuple):
    """What a participant is given to work with. `open_recorder` begins a recorder run for a job."""

    link: Link
    open_recorder: Callable[[str], Recorder]
    ask_for_gpu: Callable[[], GpuAnswer]
    clock: Clock


class Participant:
    """One participant over all jobs of the demo."""

    def __init__(self, person: Person, shard: Examples, machine: Machine) -> None:
        self._person = person
        self._shard = shard
        self._machine = machine
        self._link = machine.link
        self._clock = machine.clock
        self._backend = _choose_backend(machine.ask_for_gpu if person.wants_gpu else None)
        self._leaves_after: int | None = None
        self._page: Page | None = None
        self._next_snapshot_us = 0

    def run(self) -> None:
        """Serve until told to shut; a message that is not expected here is an error, never passed by."""
        while True:
            match self._next():
                case OpenJob() as opened:
                    self._open(opened)
                case Assign() as assigned:
                    self._work(assigned)
                case CloseJob():
                    self._close()
                case Shut():
                    return
                case message:
                    raise AssertionError(f"{self._person.id} did not expect {message}")

    def _next(self) -> ToParticipant:
        """The next message that asks for something. While waiting, the page goes on reporting at its interval."""
        while True:
            if self._page is None:
                message = self._link.receive(1.0)
            else:
                message = self._link.receive((self._next_snapshot_us - self._clock()) / 1e6)
            if isinstance(message, View):
                self._see(message.view)
            elif message is not None:
                return message
            if self._page is not None and self._clock() >= self._next_snapshot_us:
                self._report()

    @property
    def _open_page(self) -> Page:
        assert self._page is not None, "no job is open"
        return self._page

    def _open(self, opened: OpenJob) -> None:
        page = Page(self._machine.open_recorder(opened.job), self._clock, self._person.id, self._preferences())
        page.view = opened.view
        page.execution = Execution(self._backend, self._clock)
        self._page, self._leaves_after = page, opened.leaves_after
        with page.recorder.call("setBackendPreference", {"backend": page.execution.facts["requestedBackend"]}):
            pass  # the choice was made when the process began; the page's API only notes it
        with page.recorder.call("joinJob", {"job": opened.job}):
            self._link.send(Join(self._person.name, len(self._shard.labels)))
        self._report()

    def _close(self) -> None:
        self._report()
        events = self._recorder.close()
        self._page = None
        self._link.send(Closed(events))

    def _work(self, assigned: Assign) -> None:
        """One assignment, stage by stage."""
        page = self._open_page
        assignment = {"id": assigned.assignment_id, "round": assigned.round, "units": assigned.units}
        batch = {
            "size": self._person.training.batch,
            "localSteps": local_steps(self._person.training, assigned.units),
        }
        page.transfer = self._transfer("down", assigned.base_bytes)
        self._enter("downloading", assignment=assignment, batch=batch)
        weights = self._download(assigned)
        page.transfer = None
        self._enter("training", modelSha256=assigned.base_sha256)
        try:
            trained = self._train(assigned, weights)
        except (IndexError, ValueError, ArithmeticError) as error:
            self._link.send(Failed(assigned.assignment_id, type(error).__name__, str(error)))
        else:
            self._upload(assigned, trained)
        page.transfer = None
        self._enter("waiting", assignment=None)

    def _download(self, assigned: Assign) -> Weights:
        """The base model, checked against its digest."""
        self._link.send(Download(assigned.assignment_id))
        model = self._next()
        assert isinstance(model, Model), model
        if sha256_hex(model.weights) != assigned.base_sha256:
            raise DigestMismatch(f"the model of {assigned.assignment_id} is not {assigned.base_sha256}; it came broken")
        return dict(read_checkpoint(model.weights).weights)

    def _train(self, assigned: Assign, weights: Weights) -> Weights:
        """Local SGD as a command of the page. Raises what numpy raises."""
        key = [self._person.seed, assigned.round, self._person.number]
        units, training = assigned.units, self._person.training
        with self._recorder.call("train", {**_named(assigned), "units": units}) as call:
            started_s = perf_counter()
            trained = train(weights, self._shard, units, training, key)
            elapsed_s = perf_counter() - started_s
            self._execution.note(computeOnlySamplesPerSecond=round(units * training.epochs / elapsed_s, 1))
            call.result = {"localSteps": local_steps(training, units)}
        return trained

    def _upload(self, assigned: Assign, trained: Weights) -> None:
        """Archive the update, then hand it in. A refusal is recorded by the page's command and changes nothing else."""
        data = write_tensors(trained)
        self._open_page.transfer = self._transfer("up", len(data))
        self._enter("uploading")
        examples = Examples(self._shard.images[: assigned.units], self._shard.labels[: assigned.units])
        sha256 = self._recorder.upload_artifact("update", data, round=assigned.round)
        result = Result(assigned.assignment_id, assigned.units, data, sha256, evaluate(trained, examples))
        try:
            with self._recorder.call("submitResult", {**_named(assigned), "sha256": sha256}):
                self._submit(result)
        except PageRefusal:
            return

    def _submit(self, result: Result) -> None:
        self._link.send(result)
        verdict = self._next()
        assert isinstance(verdict, Verdict), verdict
        if verdict.code is not None:
            raise PageRefusal(verdict.code, verdict.message or "")

    def _see(self, view: Document) -> None:
        """The published state moved on; once the round is over after which this participant leaves, it leaves."""
        self._open_page.view = view
        if self._leaves_after is not None and view["job"]["state"]["round"] >= self._leaves_after:
            with self._recorder.call("leaveJob", {"job": view["job"]["id"]}):
                self._link.send(Leave())
            self._leaves_after = None

    @property
    def _recorder(self) -> Recorder:
        return self._open_page.recorder

    @property
    def _execution(self) -> Execution:
        execution = self._open_page.execution
        assert execution is not None
        return execution

    def _enter(self, stage: str, **facts: object) -> None:
        """The next stage begins: said to the coordinator, recorded by the page."""
        self._execution.enter(stage, **facts)
        self._report()

    def _report(self) -> None:
        self._link.send(Report(self._execution.facts))
        self._open_page.report()
        self._next_snapshot_us = self._clock() + self._person.snapshot_interval_ms * 1000

    def _transfer(self, direction: str, total_bytes: int) -> Document:
        return {"participant": self._person.id, "direction": direction, "bytes": 0, "totalBytes": total_bytes}

    def _preferences(self) -> Document:
        return {"backend": self._backend["requestedBackend"], "maxLocalWorkers": 1, "gpuMemoryBudgetMiB": None}


def _named(assigned: Assign) -> Document:
    """What a command says it is about."""
    return {"assignment": assigned.assignment_id, "round": assigned.round}


def _choose_backend(ask_for_gpu: Callable[[], GpuAnswer] | None) -> Document:
    """How this process computes. Training is numpy on the CPU; who asked for a GPU says why it has none."""
    fixed: Document = {
        "requestedBackend": CPU, "backend": CPU, "fallbackReason": None, "workers": 1,
        "browser": f"CPython {platform.python_version()}, numpy {np.__version__}",
    }  # fmt: skip
    if ask_for_gpu is None:
        return fixed
    answer = ask_for_gpu()
    return fixed | {
        "requestedBackend": "webgpu", "gpuAvailable": answer.is_available, "fallbackReason": answer.reason,
    }  # fmt: skip
