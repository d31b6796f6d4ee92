"""GET endpoints over checkpoints: a job's list, latest and best, and one checkpoint by digest."""

import sqlite3

from litestar import Response, get
from litestar.params import FromPath, FromQuery

from service.domain.identifiers import check_sha256, job_of_stream
from service.errors import CheckpointNotFound, DirectionUnknown
from service.projections import archived, jobs, replays
from service.projections import checkpoint_history as history
from service.projections.checkpoint_history import Checkpoint, checkpoint_facts
from service.projections.projection import JobAsOf
from service.queries.history import JobSeen
from service.queries.parameters import one_of
from service.queries.responses import ANSWERS, Asked, Looked, answer, answer_list

LATEST = {
    "latest": (history.latest, "no_checkpoint"),
    "latest_archived": (history.latest_archived, "none_archived"),
    "latest_usable": (history.latest_usable, "none_usable"),
}
"""Each way of being the latest, and the code of why there is none."""


@get("/v1/jobs/{job:str}/checkpoints", sync_to_thread=True, responses=ANSWERS)
def list_checkpoints(
    request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None
) -> Response[bytes]:  # fmt: skip
    """Every checkpoint of a job by round: what pages reported beside what was archived."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        rows = [checkpoint_facts(found) for found in history.checkpoints_as_of(connection, seen.key)]
    return answer_list(request, "checkpoints", rows, looking.moment)


@get("/v1/jobs/{job:str}/checkpoints/best", sync_to_thread=True, responses=ANSWERS)
def show_best_checkpoint(
    *, request: Asked, job: FromPath[str], looking: Looked, metric: FromQuery[str], site: FromQuery[str | None] = None,
    split: FromQuery[str] = "validation", direction: FromQuery[str | None] = None,
) -> Response[bytes]:  # fmt: skip
    """The best checkpoint by a metric of one split. Model or asker tell the direction; nobody guesses."""
    one_of("split", split, ("training", "validation"))
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        towards = (direction and one_of("direction", direction, ("min", "max"))) or _direction(connection, seen, metric)
        found = history.best(history.checkpoints_as_of(connection, seen.key), metric, split, towards)
    body = {
        "best": checkpoint_facts(found.checkpoint) if found.checkpoint else None,
        "reason": found.reason,
        "value": found.value,
        "metric": metric,
        "split": split,
        "direction": towards,
        "direction_from": "request" if direction else "model",
        "had_it": found.had_it,
        "of": found.of,
        "tie_rule": "lowest round, then earliest position",
    }
    return answer(request, body, looking.moment)


def _direction(connection: sqlite3.Connection, seen: JobSeen, metric: str) -> str:
    """What the archived module's manifest says, else what pages report. Raises DirectionUnknown."""
    directions = {**jobs.directions(seen.fold.job), **archived.manifest_directions(connection, seen.key)}
    if metric in directions:
        return directions[metric]
    raise DirectionUnknown(
        f"nothing says whether more or less of {metric!r} is better; add ?direction=min or ?direction=max",
        metric=metric, known=directions,
    )  # fmt: skip


@get("/v1/jobs/{job:str}/checkpoints/{which:str}", sync_to_thread=True, responses=ANSWERS)
def show_checkpoint(
    request: Asked, job: FromPath[str], which: FromPath[str], looking: Looked, site: FromQuery[str | None] = None
) -> Response[bytes]:  # fmt: skip
    """The checkpoint of a round, or `latest`, `latest_archived`, `latest_usable`: three different answers."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        found = history.checkpoints_as_of(connection, seen.key)
    if which in LATEST:
        choose, reason = LATEST[which]
        chosen = choose(found)
        body = {"checkpoint": checkpoint_facts(chosen) if chosen else None, "reason": None if chosen else reason}
        return answer(request, body, looking.moment)
    of_round = _of_round(found, which, job)
    newest = max(of_round, key=lambda checkpoint: checkpoint.first_position)
    others = [checkpoint_facts(other) for other in of_round if other is not newest]
    return answer(request, {"checkpoint": checkpoint_facts(newest), "others": others}, looking.moment)


def _of_round(found: list[Checkpoint], which: str, job: str) -> list[Checkpoint]:
    """Every checkpoint of one round; the one heard of last is the current one, the others stand beside it."""
    of_round = [c for c in found if which.isascii() and which.isdigit() and c.round == int(which)]
    if not of_round:
        raise CheckpointNotFound(
            f"job {job!r} has no checkpoint of round {which[:40]!r}; wanted a round, best, {', '.join(LATEST)}",
            job=job, round=which[:40],
        )  # fmt: skip
    return of_round


@get("/v1/checkpoints/{sha256:str}", sync_to_thread=True, responses=ANSWERS)
def show_checkpoint_by_digest(request: Asked, sha256: FromPath[str], looking: Looked) -> Response[bytes]:
    """One checkpoint by its digest: in every job that knows it, with its replays."""
    check_sha256(sha256)
    with looking.views.reading() as connection:
        places = history.jobs_of_checkpoint(connection, sha256, looking.moment.position)
        found = [
            {"job": job_of_stream(stream), "site": site or None, **checkpoint_facts(checkpoint)}
            for stream, site in places
            for checkpoint in history.checkpoints_as_of(connection, JobAsOf(stream, site, looking.moment.position))
            if checkpoint.sha256 == sha256
        ]
        if not found:
            raise CheckpointNotFound(f"no checkpoint {sha256} was reported or archived", sha256=sha256)
        runs = replays.replays_of_checkpoint(connection, sha256, looking.moment.position)
    return answer(request, {"sha256": sha256, "jobs": found, "replays": runs}, looking.moment)


checkpoint_handlers = [
    list_checkpoints, show_best_checkpoint, show_checkpoint, show_checkpoint_by_digest,
]  # fmt: skip
