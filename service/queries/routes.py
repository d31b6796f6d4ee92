"""GET endpoints over the views of jobs: the list, one job, its participants, commands, metrics, recorders, replays.

Each takes `as_of`, `wait_for` and, where a job is named, `site`; lists take `limit` and `cursor`. Checkpoints and
events have their own files beside this one.
"""

import sqlite3
from typing import Annotated, Any

from litestar import Response, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath, FromQuery, QueryParameter

from service.domain.identifiers import job_of_stream
from service.domain.times import Clock, format_us
from service.errors import ParticipantNotFound
from service.projections import (
    Views,
    archived,
    commands,
    documents,
    jobs,
    metrics,
    participants,
    quarantine,
    recorders,
    replays,
)
from service.projections.streams import SiteFold
from service.queries.checkpoint_routes import checkpoint_handlers
from service.queries.event_routes import event_handlers
from service.queries.history import JobSeen, Looking, look, next_page
from service.queries.parameters import Limit, one_of
from service.queries.replay_requests import ask_for_replay
from service.queries.responses import ANSWERS, Asked, Looked, answer, answer_list
from service.queries.timeline_routes import timeline_handlers
from service.store import EventStore


def provide_looking(
    *,
    store: NamedDependency[EventStore],
    views: NamedDependency[Views],
    clock: NamedDependency[Clock],
    as_of: FromQuery[str | None] = None,
    wait_for: FromQuery[int | None] = None,
    cursor: FromQuery[str | None] = None,
) -> Looking:
    """A look at the views as of what the request asks for."""
    return look(store, views, clock, as_of=as_of, wait_for=wait_for, cursor=cursor)


@get("/v1/jobs", sync_to_thread=True, responses=ANSWERS)
def list_jobs(
    request: Asked, looking: Looked, site: FromQuery[str | None] = None, limit: Limit = 100
) -> Response[bytes]:
    """Every job, by when it was first heard of."""
    with looking.views.reading() as connection:
        found = jobs.jobs_as_of(connection, looking.moment.position, looking.after, limit, site)
        rows = [_job_row(connection, looking, stream, name) for _, stream, name in found]
    return answer_list(request, "jobs", rows, looking.moment, next_page(looking, rows, limit))


def _job_row(connection: sqlite3.Connection, looking: Looking, stream: str, site: str) -> dict[str, Any]:
    seen = looking.job(connection, job_of_stream(stream) or "", site)
    facts = jobs.job_facts(seen.fold.job)
    kept = ("phase", "round", "epochs", "aggregation", "created_at", "started_at", "finished_at")
    return {**_identity(seen), **{name: facts[name] for name in kept}, **_heads(connection, looking, seen)}


def _identity(seen: JobSeen) -> dict[str, Any]:
    fold: SiteFold = seen.fold
    return {
        "id": seen.job,
        "site": seen.key.site or None,
        "stream": seen.key.stream,
        "position": fold.first_position,
        "last_position": fold.last_position,
        "last_recorded_at": format_us(fold.last_recorded_at_us),
    }


def _heads(connection: sqlite3.Connection, looking: Looking, seen: JobSeen) -> dict[str, Any]:
    """How many participants are fresh, stale and gone, and since when the views miss an event."""
    limit_us = jobs.stale_limit_us(seen.fold.job, looking.views.thresholds.stale_after_us)
    states = [
        participants.liveness(one, looking.moment.moment_us, limit_us).state
        for one in seen.fold.participants.seen.values()
    ]
    page = jobs.page_that_counts(seen.fold.job)
    counts = {state: states.count(state) for state in ("fresh", "stale", "gone")}
    return {
        "participants": {"total": len(states), **counts, "entries_listed": page.entries if page else None},
        "incomplete_since": quarantine.incomplete_since(connection, seen.key.stream, seen.key.up_to),
    }


@get("/v1/jobs/{job:str}", sync_to_thread=True, responses=ANSWERS)
def show_job(
    request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None
) -> Response[bytes]:
    """One job: every fact with the event it came from, and what its views miss."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        body = {**_identity(seen), **jobs.job_facts(seen.fold.job), **_heads(connection, looking, seen)}
        body["artifacts"] = archived.artifacts_as_of(connection, seen.key)
        body["unknown_types"] = documents.unknown_types(connection, seen.key.stream, seen.key.up_to)
        body["quarantined"] = quarantine.quarantined(connection, seen.key.stream, seen.key.up_to)
    return answer(request, body, looking.moment)


@get("/v1/jobs/{job:str}/participants", sync_to_thread=True, responses=ANSWERS)
def list_participants(
    request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None,
    liveness: FromQuery[str | None] = None,
) -> Response[bytes]:  # fmt: skip
    """Everyone who was ever listed in the job, with liveness as of the moment asked about."""
    wanted = liveness and one_of("liveness", liveness, ("fresh", "stale", "gone"))
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
    rows = [_participant(looking, seen, name) for name in seen.fold.participants.seen]
    rows = [row for row in rows if wanted is None or row["liveness"].state == wanted]
    return answer_list(request, "participants", rows, looking.moment)


@get("/v1/jobs/{job:str}/participants/{participant:str}", sync_to_thread=True, responses=ANSWERS)
def show_participant(
    request: Asked, job: FromPath[str], participant: FromPath[str], looking: Looked,
    site: FromQuery[str | None] = None,
) -> Response[bytes]:  # fmt: skip
    """One participant: place, execution, limits; each fact with the event it came from."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
    if participant not in seen.fold.participants.seen:
        raise ParticipantNotFound(
            f"job {job!r} lists no participant {participant!r} up to position {looking.moment.position}",
            job=job, participant=participant,
        )  # fmt: skip
    return answer(request, _participant(looking, seen, participant), looking.moment)


def _participant(looking: Looking, seen: JobSeen, participant: str) -> dict[str, Any]:
    one, job = seen.fold.participants.seen[participant], seen.fold.job
    limit_us = jobs.stale_limit_us(job, looking.views.thresholds.stale_after_us)
    return {
        "id": participant,
        "job": seen.job,
        "position": one.first_position,
        "liveness": participants.liveness(one, looking.moment.moment_us, limit_us),
        **participants.participant_facts(one, participant, job, limit_us),
    }


@get("/v1/jobs/{job:str}/commands", sync_to_thread=True, responses=ANSWERS)
def list_commands(
    *, request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None,
    outcome: FromQuery[str | None] = None, limit: Limit = 100,
) -> Response[bytes]:  # fmt: skip
    """Commands in the order they were heard of, with how they returned. A return says nothing about training."""
    wanted = outcome and one_of("outcome", outcome, ("ok", "error", "open"))
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        rows = commands.commands_as_of(connection, seen.key, looking.after, limit, wanted)
    return answer_list(request, "commands", rows, looking.moment, next_page(looking, rows, limit))


@get("/v1/jobs/{job:str}/metrics", sync_to_thread=True, responses=ANSWERS)
def list_metrics(
    *, request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None,
    names: FromQuery[str | None] = None, split: FromQuery[str | None] = None, by: FromQuery[str] = "round",
    max_points: Annotated[int | None, QueryParameter(ge=2, le=100_000)] = None,
) -> Response[bytes]:  # fmt: skip
    """Every value that was reported for a checkpoint. `names` is a comma-separated list.

    `by` orders by segment and round, or by the time of recording; `max_points` thins each longer series.
    """
    wanted = split and one_of("split", split, ("training", "validation"))
    one_of("by", by, ("round", "time"))
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        chosen = names.split(",") if names else []
        series, rows = metrics.series_as_of(connection, seen.key, chosen, wanted, max_points)
    if by == "time":
        rows.sort(key=lambda row: row["value"].position)
    return answer_list(request, "metrics", rows, looking.moment, series=[told._asdict() for told in series])


@get("/v1/jobs/{job:str}/recorders", sync_to_thread=True, responses=ANSWERS)
def list_recorders(
    request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None
) -> Response[bytes]:  # fmt: skip
    """The recorder runs heard in a job, with the gaps in what they sent."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        rows = recorders.recorders_as_of(connection, seen.key)
    return answer_list(request, "recorders", rows, looking.moment)


@get("/v1/jobs/{job:str}/replays", sync_to_thread=True, responses=ANSWERS)
def list_replays(
    request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None, limit: Limit = 100
) -> Response[bytes]:  # fmt: skip
    """Replays of the job's checkpoints, with their verdicts."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        rows = replays.replays_as_of(connection, seen.key, looking.after, limit)
    return answer_list(request, "replays", rows, looking.moment, next_page(looking, rows, limit))


@get("/v1/replays/{replay:str}", sync_to_thread=True, responses=ANSWERS)
def show_replay(request: Asked, replay: FromPath[str], looking: Looked) -> Response[bytes]:
    """One replay: what was asked, and what came out."""
    with looking.views.reading() as connection:
        found = replays.replay_as_of(connection, replay, looking.moment.position)
    return answer(request, found, looking.moment)


query_router = Router(
    path="/",
    route_handlers=[
        list_jobs, show_job, list_participants, show_participant, list_commands, list_metrics, list_recorders,
        list_replays, show_replay, *checkpoint_handlers, *event_handlers, *timeline_handlers, ask_for_replay,
    ],
    dependencies={"looking": Provide(provide_looking, sync_to_thread=True)},

    tags=["views"],
)  # fmt: skip
"""Needs the dependencies `store`, `views`, `clock` and `run` by name, and the guard of `parameters` on the app."""
