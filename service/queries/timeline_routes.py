"""GET endpoints over change: the timeline of a job or of one participant, and the diagnostic flags."""

import sqlite3
from typing import Any

from litestar import Response, get
from litestar.params import FromPath, FromQuery

from service.errors import ParticipantNotFound
from service.projections import jobs
from service.projections.flags import flag_facts, flags_as_of
from service.projections.timeline import Interval, interval_facts, intervals_as_of, unknown_facts, unknown_intervals
from service.queries.history import JobSeen, Looking
from service.queries.parameters import one_of
from service.queries.responses import ANSWERS, Asked, Looked, answer, answer_list

SUBJECTS = ("status", "stage", "backend", "assignment", "liveness", "phase", "round")


@get("/v1/jobs/{job:str}/timeline", sync_to_thread=True, responses=ANSWERS)
def show_job_timeline(
    request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None,
    subject: FromQuery[str | None] = None,
) -> Response[bytes]:  # fmt: skip
    """Which value held from when to when, for the job and everyone in it; what recorders lost is `unknown`."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        body = _timeline(connection, looking, seen, subject)
    return answer(request, body, looking.moment)


@get("/v1/jobs/{job:str}/participants/{participant:str}/timeline", sync_to_thread=True, responses=ANSWERS)
def show_participant_timeline(
    *, request: Asked, job: FromPath[str], participant: FromPath[str], looking: Looked,
    site: FromQuery[str | None] = None, subject: FromQuery[str | None] = None,
) -> Response[bytes]:  # fmt: skip
    """Which value held from when to when, for one participant."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        if participant not in seen.fold.participants.seen:
            raise ParticipantNotFound(f"job {job!r} lists no participant {participant!r}", participant=participant)
        body = _timeline(connection, looking, seen, subject, participant)
    return answer(request, body, looking.moment)


def _timeline(
    connection: sqlite3.Connection, looking: Looking, seen: JobSeen, subject: str | None, participant: str | None = None
) -> dict[str, Any]:  # fmt: skip
    if subject is not None:
        one_of("subject", subject, SUBJECTS)
    intervals = [
        interval_facts(part)
        for part in _line(connection, looking, seen)
        if subject in (None, part.subject) and participant in (None, part.participant)
    ]
    unknown = [unknown_facts(hole) for hole in unknown_intervals(connection, seen.key)]
    return {"intervals": intervals, "unknown": unknown}


def _line(connection: sqlite3.Connection, looking: Looking, seen: JobSeen) -> list[Interval]:
    fold, now_us = seen.fold, looking.moment.moment_us
    limit_us = jobs.stale_limit_us(fold.job, looking.views.thresholds.stale_after_us)
    return intervals_as_of(connection, seen.key, fold.timeline, fold.participants, (now_us, limit_us))


@get("/v1/jobs/{job:str}/diagnostics", sync_to_thread=True, responses=ANSWERS)
def list_diagnostics(
    *, request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None,
    flag: FromQuery[str | None] = None, participant: FromQuery[str | None] = None,
    open: FromQuery[bool | None] = None,  # noqa: A002 - reads as the word it is in a query
) -> Response[bytes]:  # fmt: skip
    """Named flags with the positions that show them, by when they opened (docs/events.md has each rule)."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
        line = _line(connection, looking, seen)
        found = flags_as_of(connection, seen.key, seen.fold.job, seen.fold.diagnostics, line)
    rows = [
        flag_facts(one)
        for one in found
        if flag in (None, one.name) and participant in (None, one.participant) and open in (None, one.closed_us is None)
    ]
    return answer_list(request, "diagnostics", rows, looking.moment)


timeline_handlers = [show_job_timeline, show_participant_timeline, list_diagnostics]
