"""Asking for a replay: appends `replay.requested`; the replay loop does the rest and appends the verdict."""

import sqlite3
from typing import Literal

import msgspec
from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath, RawBody

from service.domain.events import REPLAY_REQUESTED, ReplayRequested
from service.domain.identifiers import check_sha256, uuid7
from service.errors import CheckpointNotFound, InvalidField, InvalidJson
from service.ingest.translate import ServiceRun
from service.projections import checkpoint_history as history
from service.projections import replays
from service.projections.projection import JobAsOf
from service.queries.responses import ANSWERS, Asked, Looked, answer

REPLAY_ANSWERS = {202: ANSWERS[200], **{code: ANSWERS[code] for code in (200, 404, 422, 503)}}
APPEND_S = 30.0
"""How long an accepted request may wait for the store."""


class ReplayAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Body of the request; all of it optional. `again` runs what was run or asked for with this engine before."""

    engine: Literal["auto", "gpu", "reference", "cpu", "wasm"] = "auto"
    again: bool = False


@post("/v1/checkpoints/{sha256:str}/replays", sync_to_thread=True, status_code=202, responses=REPLAY_ANSWERS)
def ask_for_replay(
    request: Asked, sha256: FromPath[str], looking: Looked, run: NamedDependency[ServiceRun], body: RawBody
) -> Response[bytes]:  # fmt: skip
    """Ask for a checkpoint to be run again: 202 with the replay's id, 200 when the same is asked for already."""
    asked = _read_body(body)
    with looking.views.reading() as connection:
        stream, round_number = _place(connection, check_sha256(sha256), looking.moment.position)
        before = replays.replays_of_checkpoint(connection, sha256, looking.moment.position)
    same = [replay for replay in before if replay["engine_asked"] == asked.engine]
    if same and not asked.again:
        return answer(request, same[-1], looking.moment)
    replay_id = uuid7(run.clock(), run.random_bytes)
    data = ReplayRequested(replay_id, sha256, asked.engine, round_number)
    event = run.event(REPLAY_REQUESTED, stream, data)
    [receipt] = looking.store.append([event]).result(timeout=APPEND_S)
    made = {"id": replay_id, "checkpoint_sha256": sha256, "engine_asked": asked.engine, "state": "waiting",
            "requested_position": receipt.position}  # fmt: skip
    return answer(request, made, looking.moment, status_code=202)


def _read_body(body: bytes) -> ReplayAsked:
    if not body:
        return ReplayAsked()
    try:
        return msgspec.json.decode(body, type=ReplayAsked)
    except msgspec.ValidationError as error:
        raise InvalidField(f"the body does not fit: {error}", path="$") from None
    except msgspec.DecodeError as error:
        raise InvalidJson(f"the body is no JSON: {error}") from None


def _place(connection: sqlite3.Connection, sha256: str, up_to: int) -> tuple[str, int | None]:
    """The stream of the job that heard of this checkpoint first, and its round. Raises CheckpointNotFound."""
    for stream, site in history.jobs_of_checkpoint(connection, sha256, up_to):
        for checkpoint in history.checkpoints_as_of(connection, JobAsOf(stream, site, up_to)):
            if checkpoint.sha256 == sha256:
                return stream, checkpoint.round
    raise CheckpointNotFound(
        f"no checkpoint {sha256} was reported or archived; put its bytes at /v1/artifacts/{sha256}?role=checkpoint",
        sha256=sha256,
    )  # fmt: skip
