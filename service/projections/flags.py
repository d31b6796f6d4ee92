"""The diagnostics view, reading side: every flag of a job as of a moment, whichever view tells it.

Closed flags are rows and open ones part of the fold. Flags that other views tell are read from their rows: `stale` from
the timeline, `recorder-gap` from recorders, `command-refused` from commands, `non-finite-metric` from metrics, and
`label-conflict` from the directions that the manifest and the pages give one metric.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from service.domain.times import format_us
from service.projections import archived, jobs
from service.projections.diagnostics import DiagnosticsView
from service.projections.jobs import JobView
from service.projections.projection import JobAsOf
from service.projections.timeline import LIVENESS, Interval, unknown_intervals

_CLOSED = """SELECT name, participant, subject, opened_position, opened_us, closed_position, closed_us, evidence, detail
 FROM flags WHERE stream = ? AND site = ? AND closed_position <= ?"""
_REFUSED = """SELECT name, called_position, returned_position, returned_us, error_code, error_message FROM commands
 WHERE stream = ? AND site = ? AND returned_position <= ? AND outcome = 'error'"""
_THINNED = """SELECT l.recorder, l.position, l.recorded_at_us, l.data FROM recorder_life l
 JOIN recorder_streams s ON s.recorder = l.recorder AND s.stream = ?
 JOIN recorder_runs r ON r.recorder = l.recorder AND r.site = ?
 WHERE s.first_position <= ? AND l.position <= ? AND l.type = 'recorder.thinned'"""
_NON_FINITE = """SELECT name, split, round, tag, position, recorded_us FROM metrics
 WHERE stream = ? AND site = ? AND position <= ? AND tag IS NOT NULL"""


class Flag(NamedTuple):
    """A named finding with the positions that show it. Open while `closed_us` is None."""

    name: str
    participant: str
    subject: str
    opened_position: int
    opened_us: int
    closed_position: int | None
    closed_us: int | None
    evidence: tuple[int, ...]
    detail: dict[str, Any]


def flags_as_of(
    connection: sqlite3.Connection, key: JobAsOf, job: JobView, diagnostics: DiagnosticsView, line: list[Interval]
) -> list[Flag]:  # fmt: skip
    """Every flag known at a position, by when it opened. `line` is the job's timeline as of the same moment."""
    found = [
        *_closed(connection, key),
        *_open(diagnostics),
        *_stale(line),
        *_gaps(connection, key),
        *_thinned(connection, key),
        *_refused(connection, key),
        *_non_finite(connection, key),
        *_label_conflicts(connection, key, job),
    ]
    return sorted(found, key=lambda flag: (flag.opened_us, flag.opened_position, flag.name, flag.participant))


def _closed(connection: sqlite3.Connection, key: JobAsOf) -> Iterable[Flag]:
    for *told, evidence, detail in connection.execute(_CLOSED, key):
        yield Flag._make((*told, tuple(msgspec.json.decode(evidence)), msgspec.json.decode(detail)))


def _open(view: DiagnosticsView) -> Iterable[Flag]:
    for flag in view.flags.values():
        opened = (flag.name, flag.participant, flag.subject, flag.position, flag.opened_us)
        yield Flag(*opened, None, None, flag.evidence, flag.detail)


def _stale(line: list[Interval]) -> Iterable[Flag]:
    for part in line:
        if part.subject == LIVENESS and part.value == "stale":
            evidence = tuple(p for p in (part.from_position, part.closed_position) if p is not None)
            span = (part.from_position, part.from_us, part.closed_position, part.to_us)
            yield Flag("stale", part.participant, "", *span, evidence, {})


def _gaps(connection: sqlite3.Connection, key: JobAsOf) -> Iterable[Flag]:
    for gap in unknown_intervals(connection, key):
        evidence = (gap.from_position, gap.opened_position)
        detail = {"first_seq": gap.first_seq, "last_seq": gap.last_seq}
        span = (gap.opened_position, gap.to_us, None, None)
        yield Flag("recorder-gap", "", gap.recorder, *span, evidence, detail)


def _thinned(connection: sqlite3.Connection, key: JobAsOf) -> Iterable[Flag]:
    for recorder, position, moment_us, data in connection.execute(_THINNED, (*key, key.up_to)):
        span = (position, moment_us, position, moment_us)
        yield Flag("recorder-gap", "", recorder, *span, (position,), {"thinned": msgspec.json.decode(data)})


def _refused(connection: sqlite3.Connection, key: JobAsOf) -> Iterable[Flag]:
    for name, called, returned, moment_us, code, message in connection.execute(_REFUSED, key):
        evidence = tuple(p for p in (called, returned) if p is not None)
        span = (returned, moment_us, returned, moment_us)
        yield Flag("command-refused", "", name, *span, evidence, {"code": code, "message": message})


def _non_finite(connection: sqlite3.Connection, key: JobAsOf) -> Iterable[Flag]:
    for name, split, round_number, tag, position, moment_us in connection.execute(_NON_FINITE, key):
        detail = {"split": split, "round": round_number, "value": {"non_finite": tag}}
        yield Flag("non-finite-metric", "", name, position, moment_us, position, moment_us, (position,), detail)


def _label_conflicts(connection: sqlite3.Connection, key: JobAsOf, job: JobView) -> Iterable[Flag]:
    page, manifest = jobs.page_that_counts(job), archived.manifest_directions(connection, key)
    for metric, direction in jobs.directions(job).items():
        if page is not None and manifest.get(metric, direction) != direction:
            detail = {"reported": direction, "manifest": manifest[metric]}
            span = (page.position, page.recorded_at_us, None, None)
            yield Flag("label-conflict", "", metric, *span, (page.position,), detail)


def flag_facts(flag: Flag) -> dict[str, Any]:
    """A flag as an answer."""
    return {
        "flag": flag.name,
        "participant": flag.participant or None,
        "subject": flag.subject or None,
        "opened_position": flag.opened_position,
        "opened_at": format_us(flag.opened_us),
        "closed_position": flag.closed_position,
        "closed_at": None if flag.closed_us is None else format_us(flag.closed_us),
        "is_open": flag.closed_us is None,
        "evidence": list(flag.evidence),
        "detail": flag.detail,
    }
