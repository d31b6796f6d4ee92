"""The timeline view: for each participant and for the job, which value of which subject held from when to when.

Subjects of a participant: `status`, `stage`, `backend`, `assignment`, `liveness`; of the job: `phase`, `round`. Open
intervals are part of the fold; a closed one is a row, known since the event that closed it. Times are `recorded_at`.
Rules. A value holds from the snapshot that first told it to the snapshot that told another one; an unavailable value is
a value too (null). Liveness: fresh from the first evidence; when evidence comes after the limit, the time between is
stale from limit on; gone from the word that says so. What a recorder lost is no quiet: see `unknown_intervals`.
"""

import sqlite3
from typing import Any, NamedTuple

import msgspec

from service.domain import lens
from service.domain.times import format_us
from service.projections.participants import ParticipantsView, Seen, is_gone
from service.projections.projection import Change, JobAsOf, Observed
from service.projections.step import Step

NAME = "timeline"
JOB = ""
"""Stands for the job itself where a participant's id would be."""
LIVENESS = "liveness"

_CLOSED = """INSERT INTO intervals (stream, site, participant, subject, value, from_position, from_us, closed_position,
 to_us) VALUES (?,?,?,?,?,?,?,?,?)"""
_SELECT = """SELECT participant, subject, value, from_position, from_us, closed_position, to_us FROM intervals
 WHERE stream = ? AND site = ? AND closed_position <= ?"""
_UNKNOWN = """SELECT g.recorder, g.first_seq, g.last_seq, g.heard_position, g.heard_us, g.opened_position, g.opened_us
 FROM recorder_gaps g JOIN recorder_streams s ON s.recorder = g.recorder AND s.stream = ?
 JOIN recorder_runs r ON r.recorder = g.recorder AND r.site = ?
 WHERE g.opened_position <= ? AND g.heard_us IS NOT NULL AND (g.closed_position IS NULL OR g.closed_position > ?)
 ORDER BY g.opened_position"""


class Held(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A value that holds since an event."""

    value: str | None
    position: int
    since_us: int


class TimelineView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The open intervals: by participant (the job under its own key), then by subject."""

    held: dict[str, dict[str, Held]] = {}


class Interval(NamedTuple):
    """`closed_position` is the event that told its end, `to_us` the end; both None while it is open."""

    participant: str
    subject: str
    value: str | None
    from_position: int
    from_us: int
    closed_position: int | None
    to_us: int | None


def fold(view: TimelineView, step: Step) -> tuple[TimelineView, list[Change]]:
    """The open intervals after one `state.reported`, and rows of those it closed."""
    observed = step.observed
    closed: list[Interval] = []
    moved: dict[str, dict[str, Held]] = {}
    if step.counts is step.page and (step.is_job_new or len(step.job.pages) > 1):
        moved[JOB] = _follow(view.held.get(JOB, {}), JOB, lens.job_track(step.page.job), observed, closed)
    for participant, said, *_ in step.told:
        before, track = view.held.get(participant, {}), lens.participant_track(said.word)
        moved[participant] = _follow(before, participant, track, observed, closed)
    for participant, seen in step.listed:
        before = moved.get(participant) or view.held.get(participant, {})
        after = _follow_liveness(before, participant, seen, step, closed)
        if after is not before:
            moved[participant] = after
    if not moved:
        return view, []
    event = observed.event
    rows: list[Change] = [(_CLOSED, (event.stream, event.source.site, *interval)) for interval in closed]
    return TimelineView({**view.held, **moved}), rows


def _follow(
    before: dict[str, Held], participant: str, told: dict[str, str | None], observed: Observed, closed: list[Interval]
) -> dict[str, Held]:  # fmt: skip
    after = None
    for subject, value in told.items():
        old = before.get(subject)
        if old is not None and old.value == value:
            continue
        after = after or dict(before)
        after[subject] = Held(value, observed.position, observed.recorded_at_us)
        if old is not None:
            closed.append(_closed(participant, subject, old, observed))
    return after or before


def _closed(participant: str, subject: str, old: Held, observed: Observed, to_us: int | None = None) -> Interval:
    end_us = observed.recorded_at_us if to_us is None else to_us
    return Interval(participant, subject, old.value, old.position, old.since_us, observed.position, end_us)


def _follow_liveness(
    before: dict[str, Held], participant: str, seen: Seen, step: Step, closed: list[Interval]
) -> dict[str, Held]:  # fmt: skip
    """Liveness told by this event: that someone was stale until now, is gone, or is back."""
    observed, held, was = step.observed, before.get(LIVENESS), step.people_before.seen.get(participant)
    value = "gone" if is_gone(seen) else "fresh"
    now_us = observed.recorded_at_us
    if held is None or was is None:
        return {**before, LIVENESS: Held(value, observed.position, now_us)}
    stale_us = was.evidence_us + step.limit_us
    is_told = value != held.value or seen.evidence_position == observed.position
    if held.value == "fresh" and is_told and now_us >= stale_us:
        closed.append(_closed(participant, LIVENESS, held, observed, stale_us))
        closed.append(_closed(participant, LIVENESS, Held("stale", was.evidence_position, stale_us), observed))
    elif value != held.value:
        closed.append(_closed(participant, LIVENESS, held, observed))
    else:
        return before
    return {**before, LIVENESS: Held(value, observed.position, now_us)}


def intervals_as_of(
    connection: sqlite3.Connection, job: JobAsOf, view: TimelineView, people: ParticipantsView, moment: tuple[int, int]
) -> list[Interval]:  # fmt: skip
    """Every interval known at a moment, closed and open, by start. `moment` is (now, limit for liveness) in µs."""
    now_us, limit_us = moment
    found = [Interval(*row) for row in connection.execute(_SELECT, job)]
    for participant, subjects in view.held.items():
        for subject, held in subjects.items():
            still = Interval(participant, subject, held.value, held.position, held.since_us, None, None)
            seen = people.seen.get(participant)
            is_fresh = subject == LIVENESS and held.value == "fresh"
            found += _open_liveness(still, seen, now_us, limit_us) if is_fresh and seen else [still]
    return sorted(found, key=lambda interval: (interval.from_us, interval.participant, interval.subject))


def _open_liveness(still: Interval, seen: Seen, now_us: int, limit_us: int) -> list[Interval]:
    """Fresh until now; or fresh until the limit, and stale since: that end is told by the clock, not by an event."""
    stale_us = seen.evidence_us + limit_us
    if now_us < stale_us:
        return [still]
    stale = still._replace(value="stale", from_position=seen.evidence_position, from_us=stale_us)
    return [still._replace(to_us=stale_us), stale]


def interval_facts(interval: Interval) -> dict[str, Any]:
    """An interval as an answer."""
    return {
        "participant": interval.participant or None,
        "subject": interval.subject,
        "value": interval.value,
        "from": format_us(interval.from_us),
        "to": None if interval.to_us is None else format_us(interval.to_us),
        "from_position": interval.from_position,
        "closed_position": interval.closed_position,
        "is_open": interval.to_us is None,
    }


class Unknown(NamedTuple):
    """Between two events of a recorder, while those between them are missing."""

    recorder: str
    first_seq: int
    last_seq: int
    from_position: int
    from_us: int
    opened_position: int
    to_us: int


def unknown_intervals(connection: sqlite3.Connection, job: JobAsOf) -> list[Unknown]:
    """The holes in what the job's recorders sent, as known at a position.

    What happened then is unknown, not quiet. A hole that was filled later is none any more.
    """
    return [Unknown(*row) for row in connection.execute(_UNKNOWN, (*job, job.up_to))]


def unknown_facts(unknown: Unknown) -> dict[str, Any]:
    """A hole as an answer."""
    return {
        "recorder": unknown.recorder,
        "first_seq": unknown.first_seq,
        "last_seq": unknown.last_seq,
        "from": format_us(unknown.from_us),
        "to": format_us(unknown.to_us),
        "from_position": unknown.from_position,
        "opened_position": unknown.opened_position,
    }
