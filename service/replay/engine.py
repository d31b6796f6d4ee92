"""The replay engine as the service sees it: jobs in, judgements out; the warm child behind it comes and goes.

One child, one job at a time. It is replaced after a timeout, a lost device, a protocol error and every 100 jobs. A
replay returns a verdict and appends nothing.
"""

import os
import threading
from collections.abc import Sequence

import msgspec

from service.errors import Unavailable
from service.replay.frames import Hello, LostDevice
from service.replay.judgement import Judgement, ReplayEnded, cannot_run, refused
from service.replay.judging import Judged
from service.replay.plan import ReplayJob, digests_of
from service.replay.process import COMMAND, ChildEnded, ChildProcess, NoFrame, TookTooLong, UsedTooMuch
from service.settings import Settings

START_WALL_S = 60.0
"""How long a child may look for an adapter; the first look on a machine can take 15 seconds."""
START_MEMORY_BYTES = 4 * 1024 * 1024 * 1024
JOBS_MAX = 100
"""Jobs of one child: drivers leak a little with every device and pipeline."""
CACHE_FOLDER = "shader-cache"
_SIGXCPU = 24
_Reply = Judged | LostDevice


class EngineClosed(Exception):
    """The engine was closed before or in the middle of the job: the service is about to end."""


class ReplayEngine:
    """Judges replay jobs. May be used from any thread; jobs wait for each other."""

    def __init__(
        self, settings: Settings, command: Sequence[str] = COMMAND, start_wall_s: float = START_WALL_S
    ) -> None:  # fmt: skip
        self._cache = settings.folder.absolute() / CACHE_FOLDER
        self._wall_s = settings.replay_wall_s
        self._memory_bytes = settings.replay_memory_bytes
        self._command = (*command, "--cpu-s", str(self._wall_s * (os.cpu_count() or 1)))
        self._start_wall_s = start_wall_s
        self._turn = threading.Lock()
        self._child: ChildProcess | None = None
        self._hello: Hello | None = None
        self._jobs_done = 0
        self._is_closed = False

    @property
    def part_bytes_max(self) -> int:
        """How many bytes one artifact of a job may have: parent and child each hold it, and its tensors as numbers."""
        return self._memory_bytes // 8

    def adapters(self) -> Hello:
        """What the child found: its adapter, or the reason why there is none. Starts the child when it must.

        Raises Unavailable when no child starts.
        """
        with self._turn:
            try:
                return self._ready()[1]
            except ReplayEnded as end:
                raise Unavailable(end.reason, retry_after_s=60) from None

    def judge(self, job: ReplayJob) -> Judgement:
        """The judgement of a job, within the limits. Raises EngineClosed."""
        return self.run(job).judgement

    def run(self, job: ReplayJob) -> Judged:
        """As `judge`, with the outputs beside it for a job that has `inputs`."""
        job = msgspec.structs.replace(job, memory_bytes=self._memory_bytes, wall_s=self._wall_s)
        with self._turn:
            try:
                return self._exchange(job)
            except ReplayEnded as end:
                if self._is_closed:
                    raise EngineClosed("the replay engine was closed; the replay waits") from None
                return Judged(self._ended(job, end))

    def close(self) -> None:
        """End the child, also in the middle of a job."""
        self._is_closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._turn:
            self._let_go()

    def _exchange(self, job: ReplayJob) -> Judged:
        """One job there and back. Raises ReplayEnded for everything that may happen on the way."""
        if self._jobs_done >= JOBS_MAX:
            self._retire()
        child, _ = self._ready()
        child.send(msgspec.msgpack.encode(job))
        self._jobs_done += 1
        try:
            reply: _Reply = msgspec.msgpack.decode(child.receive(self._wall_s, self._memory_bytes), type=_Reply)
        except TookTooLong:
            raise refused(
                "wall_limit", f"the replay took longer than {self._wall_s:g} s (setting replay_wall_s) and was ended"
            ) from None
        except UsedTooMuch as error:
            raise refused(
                "memory_limit", f"{error}, wanted at most {self._memory_bytes} (setting replay_memory_bytes)"
            ) from None
        except ChildEnded as error:
            if error.exit_code == -_SIGXCPU:
                raise refused("processor_limit", "the replay used more processor time than its limit") from None
            raise cannot_run("child_died", str(error)) from None
        except (NoFrame, msgspec.MsgspecError) as error:
            raise cannot_run("protocol_error", f"the replay process sent what is no answer: {error}") from None
        if isinstance(reply, LostDevice):
            raise cannot_run("device_lost", f"the GPU's device was lost: {reply.reason}")
        return reply

    def _ready(self) -> tuple[ChildProcess, Hello]:
        """A child that said hello. One that cannot even look for an adapter is followed by one that does not look."""
        if self._child is not None and self._hello is not None:
            return self._child, self._hello
        if self._is_closed:
            raise cannot_run("closed", "the replay engine was closed")
        try:
            return self._start(())
        except ReplayEnded as end:
            if self._is_closed:
                raise
            return self._start(("--without-gpu", end.reason))

    def _start(self, options: tuple[str, ...]) -> tuple[ChildProcess, Hello]:
        self._child = child = ChildProcess((*self._command, *options), self._cache)
        self._jobs_done = 0
        if self._is_closed:
            child.kill()  # `close` came before it could see this child
        try:
            frame = child.receive(self._start_wall_s, max(START_MEMORY_BYTES, self._memory_bytes))
            self._hello = hello = msgspec.msgpack.decode(frame, type=Hello)
        except TookTooLong:
            self._child = None
            raise cannot_run("no_start", f"looking for a GPU took longer than {self._start_wall_s:g} s") from None
        except (ChildEnded, NoFrame, UsedTooMuch, msgspec.MsgspecError) as error:
            self._let_go()
            raise cannot_run("no_start", f"the replay process did not start: {error}") from None
        return child, hello

    def _ended(self, job: ReplayJob, end: ReplayEnded) -> Judgement:
        """The judgement of a job whose child is no use any more."""
        hello, diagnostics = self._hello, None if self._child is None else self._child.diagnostics
        self._let_go()
        return Judgement(
            verdict=end.verdict, code=end.code, reason=end.reason, engine_asked=job.engine,
            adapter=None if hello is None else hello.adapter, libraries={} if hello is None else hello.libraries,
            digests=digests_of(job), diagnostics=diagnostics,
        )  # fmt: skip

    def _retire(self) -> None:
        if self._child is not None:
            self._child.end()
        self._child = self._hello = None

    def _let_go(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = self._hello = None
