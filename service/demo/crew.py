"""The six participants as processes of their own (spawned, nothing shared but a pipe), and how each of them begins."""

import multiprocessing
import os
import signal
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType

from service.demo.incidents import Processes
from service.demo.job_plan import PARTICIPANTS, SITE, WANTS_GPU, JobPlan
from service.demo.links import PipeLink, PipeSwitchboard
from service.demo.messages import Shut
from service.demo.participant import GpuAnswer, Machine, Participant, Person
from service.demo.training import Examples
from service.domain.times import system_clock
from service.errors import Unavailable
from service.recording.client import Recorder

END_WITHIN_S = 10
"""How long a participant may take to end after it was told to."""


class Crew:
    """The running processes, over all jobs. Use as a context: whoever is left at the end is ended."""

    def __init__(self, shards: list[Examples], plan: JobPlan, seed: int, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes: dict[str, BaseProcess] = {}
        pipes: dict[str, Connection] = {}
        for number, (participant, shard) in enumerate(zip(PARTICIPANTS, shards, strict=True), 1):
            person = Person(
                id=participant, name=f"Participant {number}", number=number, seed=seed, training=plan.training,
                wants_gpu=participant == WANTS_GPU, snapshot_interval_ms=plan.snapshot_interval_ms,
            )  # fmt: skip
            pipes[participant], theirs = context.Pipe()
            process = context.Process(target=live, args=(theirs, person, shard, url), name=participant)
            process.start()
            theirs.close()
            self._processes[participant] = process
        self.switchboard = PipeSwitchboard(pipes)
        self.suspender = Processes({name: process.pid or 0 for name, process in self._processes.items()})

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._dismiss()
        for process in self._processes.values():
            if process.is_alive():
                process.kill()  # ends a stopped process too
            process.join()

    def _dismiss(self) -> None:
        """Everyone ends on its own. Raises Unavailable when somebody did not end well."""
        for participant in self._processes:
            self.switchboard.send(participant, Shut())
        for participant, process in self._processes.items():
            process.join(END_WITHIN_S)
            if process.exitcode != 0:
                raise Unavailable(f"{participant} did not end well (exit code {process.exitcode})", retry_after_s=0)


def live(pipe: Connection, person: Person, shard: Examples, url: str) -> None:
    """One participant's whole life, in its own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the coordinator, which ends the others
    machine = Machine(PipeLink(pipe), lambda job: Recorder(url, SITE, job), ask_for_gpu, system_clock)
    try:
        Participant(person, shard, machine).run()
    except EOFError:
        raise SystemExit(1) from None  # the coordinator is gone and says why


def ask_for_gpu() -> GpuAnswer:
    """Ask wgpu for a device with a limit that none can have; the refusal is real, and so is its text."""
    from service.replay.gpu import request_impossible_limit

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # drivers look for one, and complain on stderr without it
        refusal = request_impossible_limit()
    return GpuAnswer(refusal.has_gpu, refusal.reason)
