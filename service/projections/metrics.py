"""The metric view: every value that pages reported for a checkpoint, as rows; NaN and infinities keep their tag.

Rules. A row is one different value of one metric of one checkpoint and split; the same value said again is no news.
When one segment has several values for a round, the current one is that with the latest `observed_at` (the page's
claim, compared as a number), and of those the one with the highest position; the others stay. A non-finite or
unavailable value is a row too, with its tag or reason, and touches no other.
"""

import sqlite3
from itertools import pairwise
from typing import Any, NamedTuple

from service.domain import lens
from service.domain.facts import Fact
from service.domain.times import format_us
from service.projections.checkpoints import Reported
from service.projections.projection import Change, JobAsOf, Observed

NAME = "metrics"

_VALUE = """INSERT OR IGNORE INTO metrics (stream, site, sha256, segment, round, split, name, said, value, tag, reason,
 is_late, recorder, position, recorded_us, observed_us) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""
_SERIES = """SELECT split, name, count(*), count(tag), count(*) - count(tag) - count(value) FROM metrics
 WHERE stream = ? AND site = ? AND position <= ? GROUP BY split, name ORDER BY split, name"""
_POINTS = """SELECT rowid, value FROM metrics WHERE stream = ? AND site = ? AND split = ? AND name = ? AND position <= ?
 ORDER BY segment, round, observed_us, position"""
_ROWS = """SELECT rowid, segment, round, split, name, value, tag, reason, is_late, recorder, position, recorded_us,
 observed_us, sha256, NOT EXISTS (SELECT 1 FROM metrics o WHERE o.stream = m.stream AND o.site = m.site
 AND o.split = m.split AND o.name = m.name AND o.segment = m.segment AND o.round IS m.round
 AND (o.observed_us, o.position) > (m.observed_us, m.position) AND o.position <= ?) FROM metrics m"""
ROWS_AT_ONCE = 500


def fold(reported: list[Reported], observed: Observed) -> list[Change]:
    """The rows of the metrics of checkpoints that were just reported anew."""
    return [
        (_VALUE, _values(new, metric, observed)) for new in reported for metric in lens.metric_values(new.word)
    ]  # fmt: skip


def _values(new: Reported, metric: lens.MetricValue, observed: Observed) -> tuple[Any, ...]:
    event = observed.event
    value = None if metric.value is None else float(metric.value)
    said = metric.tag or metric.reason or repr(value)
    return (
        event.stream, event.source.site, new.sha256, new.segment, new.round, metric.split, metric.key, said, value,
        metric.tag, metric.reason, new.is_late, event.source.recorder, observed.position, observed.recorded_at_us,
        event.observed_at_us,
    )  # fmt: skip


class Series(NamedTuple):
    """What there is of one metric in one split, and how much of it an answer shows."""

    split: str
    name: str
    points: int
    non_finite: int
    unavailable: int
    shown: int


def series_as_of(
    connection: sqlite3.Connection, job: JobAsOf, names: list[str], split: str | None, max_points: int | None
) -> tuple[list[Series], list[dict[str, Any]]]:  # fmt: skip
    """Every metric known at `job.up_to` (all names when `names` is empty), and its observations by segment and round.

    With `max_points` a longer series is thinned by row: the first and last, the lowest and highest of each stretch, and
    every non-finite or unavailable one stay, exactly as reported; no value is averaged.
    """
    told, shown = list[Series](), list[dict[str, Any]]()
    for found_split, name, points, tags, unavailable in connection.execute(_SERIES, job).fetchall():
        if split not in (None, found_split) or (names and name not in names):
            continue
        rows = connection.execute(_POINTS, (job.stream, job.site, found_split, name, job.up_to)).fetchall()
        chosen = rows if max_points is None else [rows[i] for i in thinned([row[1] for row in rows], max_points)]
        told.append(Series(found_split, name, points, tags, unavailable, len(chosen)))
        shown += _observations(connection, [rowid for rowid, _ in chosen], job.up_to)
    return told, shown


def thinned(values: list[float | None], max_points: int) -> list[int]:
    """Which of the values to show, about `max_points`: first, last, extremes of equal stretches, all that are None."""
    if len(values) <= max_points:
        return list(range(len(values)))
    kept = {0, len(values) - 1, *(i for i, value in enumerate(values) if value is None)}
    stretches = max(1, (max_points - 2) // 2)
    edges = [len(values) * i // stretches for i in range(stretches + 1)]
    for start, end in pairwise(edges):
        stretch = values[start:end]
        finite = [value for value in stretch if value is not None]
        if finite:
            kept |= {start + stretch.index(min(finite)), start + stretch.index(max(finite))}
    return sorted(kept)


def _observations(connection: sqlite3.Connection, rowids: list[int], up_to: int) -> list[dict[str, Any]]:
    """The rows in the order of their rowids given, each with whether it is the current one of its round."""
    rows: dict[int, dict[str, Any]] = {}
    for start in range(0, len(rowids), ROWS_AT_ONCE):
        some = rowids[start : start + ROWS_AT_ONCE]
        marks = ",".join("?" * len(some))
        for rowid, *told in connection.execute(f"{_ROWS} WHERE rowid IN ({marks})", (up_to, *some)):
            rows[rowid] = _observation(told)
    return [rows[rowid] for rowid in rowids]


def _observation(row: list[Any]) -> dict[str, Any]:
    (segment, round_number, split, name, value, tag, reason, is_late, recorder,
     position, recorded_us, observed_us, sha256, is_current) = row  # fmt: skip
    return {
        "segment": segment,
        "round": round_number,
        "split": split,
        "name": name,
        "value": Fact({"non_finite": tag} if tag else value, reason, position),
        "is_current": bool(is_current),
        "is_late": bool(is_late),
        "sha256": sha256 or None,
        "recorder": recorder,
        "recorded_at": format_us(recorded_us),
        "observed_at": format_us(observed_us),
    }
