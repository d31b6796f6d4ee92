"""The replay desk: takes what was asked for, collects its bytes, has it run, and appends the verdict.

It stands between the rooms: the replay room runs and knows no store; here the archive, the views and the store meet it.
A verdict has an id made of the replay's, so that one replay is judged once whatever happens in between.
"""

from sqlite3 import Connection
from typing import NamedTuple

import msgspec

from service.artifacts.archive import Archive
from service.artifacts.checkpoint_format import read_structure
from service.artifacts.module_package import ModulePackage, read_module
from service.domain import lens
from service.domain.events import REPLAY_JUDGED, ReplayJudged
from service.domain.facts import untag_number
from service.errors import ArtifactNotFound, Corrupt, MalformedCheckpoint, MalformedModule, Unavailable
from service.ingest.translate import ServiceRun, named_event_id
from service.projections import Views, archived, replays
from service.projections import checkpoint_history as history
from service.projections.projection import JobAsOf
from service.replay import Judgement, ReplayEngine, ReplayJob, result_document
from service.replay.ad_hoc import read_inputs
from service.replay.engine import EngineClosed
from service.replay.judgement import ReplayEnded, cannot_run, refused
from service.replay.judging import Judged
from service.store import EventStore

APPEND_S = 30.0
"""How long a verdict may wait for the store."""


class Request(NamedTuple):
    """A replay that was asked for and has no verdict."""

    replay_id: str
    stream: str
    checkpoint_sha256: str
    engine: str
    round: int | None


class Beside(NamedTuple):
    """What the views know around a checkpoint: the newest validation set of its job, and the metrics of the state."""

    validation_sha256: str | None
    recorded: dict[str, float | None]


class Desk:
    """Judges replays of one service. `judge_next` is for one loop; `infer` may be called from any thread."""

    def __init__(
        self, store: EventStore, archive: Archive, views: Views, run: ServiceRun, engine: ReplayEngine
    ) -> None:  # fmt: skip
        self._store = store
        self._archive = archive
        self._views = views
        self._run = run
        self._engine = engine

    def judge_next(self) -> bool:
        """Judge one waiting request; False when none waits, or when the engine was closed."""
        request = self._next_request()
        if request is None:
            return False
        try:
            judgement = self._judge(request)
        except EngineClosed:
            return False  # the request stays, and the next run of the service judges it
        data = ReplayJudged(
            request.replay_id, request.checkpoint_sha256, judgement.verdict, result_document(judgement), request.round
        )
        event = self._run.event(
            REPLAY_JUDGED, request.stream, data, event_id=_verdict_id(request.replay_id),
            causation_id=self._cause(request.replay_id),
        )  # fmt: skip
        self._store.append([event]).result(timeout=APPEND_S)
        return True

    def infer(self, checkpoint_sha256: str, body: bytes, content_type: str, engine: str) -> Judged:
        """Run a checkpoint on inputs sent: outputs and how far they can be trusted. Nothing is recorded.

        Raises BadInput for inputs that do not fit the model, Unavailable when the service is about to end.
        """
        try:
            job = self._collect(Request("", "", checkpoint_sha256, engine, None), Beside(None, {}))
            module = None if job.module is None else _module_of(job.module)
            if module is not None:
                job = msgspec.structs.replace(job, inputs=read_inputs(body, content_type, module))
            return self._engine.run(job)
        except ReplayEnded as end:
            return Judged(_ended(engine, end))
        except EngineClosed as error:
            raise Unavailable(str(error), retry_after_s=5) from None

    def close(self) -> None:
        """End the child process, also in the middle of a replay."""
        self._engine.close()

    def _next_request(self) -> Request | None:
        """The oldest request without a verdict. The views may be behind the store, so the store is asked as well."""
        with self._views.reading() as connection:
            waiting = [Request(*row) for row in replays.waiting_requests(connection)]
        return next((one for one in waiting if self._store.find(_verdict_id(one.replay_id)) is None), None)

    def _judge(self, request: Request) -> Judgement:
        with self._views.reading() as connection:
            beside = _beside(connection, request, self._views.position())
        try:
            job = self._collect(request, beside)
        except ReplayEnded as end:
            return _ended(request.engine, end)
        return self._engine.judge(job)

    def _cause(self, replay_id: str) -> str:
        """The id of the event that asked."""
        with self._views.reading() as connection:
            asked = replays.replay_as_of(connection, replay_id, self._views.position())
        return self._store.read_one(asked["requested_position"]).event.id

    def _collect(self, request: Request, beside: Beside) -> ReplayJob:
        """All bytes of one replay. Raises ReplayEnded when the checkpoint or what it names is damaged or too large."""
        checkpoint = self._read(request.checkpoint_sha256)
        if checkpoint is None:
            raise cannot_run(
                "no_checkpoint",
                f"the bytes of checkpoint {request.checkpoint_sha256} are not kept; attach them with PUT "
                f"/v1/artifacts/{request.checkpoint_sha256}?role=checkpoint",
            )
        module_bytes = self._read(self._module_sha256(request.checkpoint_sha256))
        module = None if module_bytes is None else _module_of(module_bytes)
        auxiliary = {} if module is None else {one.sha256: self._read(one.sha256) for one in module.auxiliary_weights}
        return ReplayJob(
            checkpoint=checkpoint, checkpoint_sha256=request.checkpoint_sha256, module=module_bytes,
            shader_archive=self._read(None if module is None else module.shader_archive),
            wasm=self._read(None if module is None else module.wasm),
            validation=self._read(beside.validation_sha256),
            auxiliary={sha256: data for sha256, data in auxiliary.items() if data is not None},
            recorded=beside.recorded, engine=request.engine,
        )  # fmt: skip

    def _module_sha256(self, checkpoint_sha256: str) -> str | None:
        """The module that the checkpoint names; None for a malformed checkpoint, which the engine then refuses."""
        try:
            return read_structure(self._archive.source(checkpoint_sha256))[1].module_sha256
        except MalformedCheckpoint:
            return None

    def _read(self, sha256: str | None) -> bytes | None:
        """The bytes, None when they are not kept. Raises ReplayEnded for damaged bytes and those over the limit."""
        size_bytes = None if sha256 is None else self._archive.head(sha256)
        if sha256 is None or size_bytes is None:
            return None
        limit_bytes = self._engine.part_bytes_max
        if size_bytes > limit_bytes:
            raise refused("over_limits", f"artifact {sha256} has {size_bytes} bytes, wanted at most {limit_bytes}")
        try:
            return self._archive.read(sha256)
        except ArtifactNotFound:
            return None
        except Corrupt as error:
            raise refused(error.code, error.message) from None


def _verdict_id(replay_id: str) -> str:
    return named_event_id(REPLAY_JUDGED, replay_id)


def _module_of(data: bytes) -> ModulePackage | None:
    """The module; None for a malformed one, which the engine then refuses with the reason."""
    try:
        return read_module(data)
    except MalformedModule:
        return None


def _ended(engine: str, end: ReplayEnded) -> Judgement:
    return Judgement(verdict=end.verdict, code=end.code, reason=end.reason, engine_asked=engine)


def _beside(connection: Connection, request: Request, up_to: int) -> Beside:
    kept = archived.artifacts_as_of(connection, JobAsOf(request.stream, "", up_to))
    validation = [artifact["sha256"] for artifact in kept if artifact["role"] == "validation"]
    recorded: dict[str, float | None] = {}
    for stream, site in history.jobs_of_checkpoint(connection, request.checkpoint_sha256, up_to):
        if stream == request.stream:
            recorded |= _recorded(connection, JobAsOf(stream, site, up_to), request.checkpoint_sha256)
    return Beside(validation[-1] if validation else None, recorded)


def _recorded(connection: Connection, job: JobAsOf, sha256: str) -> dict[str, float | None]:
    """Validation metrics that pages reported for the checkpoint, by key; unavailable ones are left out."""
    reports = [one.report for one in history.checkpoints_as_of(connection, job) if one.sha256 == sha256]
    values = [found for report in reports if report for found in lens.metric_values(report.word)]
    return {
        found.key: untag_number(found.value if found.tag is None else found.tag)
        for found in values
        if found.split == "validation" and found.reason is None
    }
