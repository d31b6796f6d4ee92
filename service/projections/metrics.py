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
_SERIES = """SELECT DISTINCT split, name FROM metrics WHERE stream = ? AND site = ? AND position <= ?
 ORDER BY split, name"""
_POINTS = """SELECT rowid, segment, round, value, tag FROM metrics
 WHERE stream = ? AND site = ? AND split = ? AND name = ? AND position <= ?
 ORDER BY segment, round, observed_us, position"""
_ROWS = """SELECT rowid, segment, round, split, name, value, tag, reason, is_late, recorder, position, recorded_us,
 observed_us, sha256 FROM metrics"""
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
    shown: int
    non_finite: int
    unavailable: int


class Point(NamedTuple):
    """One observation as the choice of points needs it. `is_current` by the rule above."""

    rowid: int
    value: float | None
    is_current: bool


def series_as_of(
    connection: sqlite3.Connection, job: JobAsOf, names: list[str], split: str | None, max_points: int | None
) -> tuple[list[Series], list[dict[str, Any]]]:  # fmt: skip
    """Every metric known at `job.up_to` (all names when `names` is empty), and its observations by segment and round.

    With `max_points` a longer series is thinned by row: the first and last, the lowest and highest of each stretch, and
    every non-finite or unavailable one stay, exactly as reported; no value is averaged.
    """
    told, shown = list[Series](), list[dict[str, Any]]()
    for found_split, name in connection.execute(_SERIES, job).fetchall():
        if split not in (None, found_split) or (names and name not in names):
            continue
        points, tags = _points(connection, job, found_split, name)
        chosen = points if max_points is None else thinned(points, max_points)
        unavailable = sum(point.value is None for point in points)
        told.append(Series(found_split, name, len(points), len(chosen), tags, unavailable - tags))
        shown += _observations(connection, chosen)
    return told, shown


def _points(connection: sqlite3.Connection, job: JobAsOf, split: str, name: str) -> tuple[list[Point], int]:
    """The series in order; within one segment and round the current observation is the last."""
    parameters = (job.stream, job.site, split, name, job.up_to)
    rows = connection.execute(_POINTS, parameters).fetchall()
    places = [(segment, round_number) for _, segment, round_number, _, _ in rows]
    follows = [*(place != after for place, after in pairwise(places)), True]
    points = [Point(row[0], row[3], is_last) for row, is_last in zip(rows, follows[-len(rows) :], strict=True)]
    return points, sum(tag is not None for *_, tag in rows)


def thinned(points: list[Point], max_points: int) -> list[Point]:
    """About `max_points` of the points, in order: first, last, extremes of equal stretches, all that have no value."""
    if len(points) <= max_points:
        return points
    kept = {0, len(points) - 1, *(i for i, point in enumerate(points) if point.value is None)}
    stretches = max(1, (max_points - 2) // 2)
    values = [point.value for point in points]
    edges = [len(points) * i // stretches for i in range(stretches + 1)]
    for start, end in pairwise(edges):
        finite = [i for i in range(start, end) if values[i] is not None]
        if finite:
            kept.add(min(finite, key=values.__getitem__))  # type: ignore[arg-type]
            kept.add(max(finite, key=values.__getitem__))  # type: ignore[arg-type]
    return [points[i] for i in sorted(kept)]


def _observations(connection: sqlite3.Connection, chosen: list[Point]) -> list[dict[str, Any]]:
    rows: dict[int, tuple[Any, ...]] = {}
    for start in range(0, len(chosen), ROWS_AT_ONCE):
        some = [point.rowid for point in chosen[start : start + ROWS_AT_ONCE]]
        marks = ",".join("?" * len(some))
        rows.update((row[0], row[1:]) for row in connection.execute(f"{_ROWS} WHERE rowid IN ({marks})", some))
    return [_observation(rows[point.rowid], point.is_current) for point in chosen]


def _observation(row: tuple[Any, ...], is_current: bool) -> dict[str, Any]:
    (segment, round_number, split, name, value, tag, reason, is_late, recorder,
     position, recorded_us, observed_us, sha256) = row  # fmt: skip
    return {
        "segment": segment,
        "round": round_number,
        "split": split,
        "name": name,
        "value": Fact({"non_finite": tag} if tag else value, reason, position),
        "is_current": is_current,
        "is_late": bool(is_late),
        "sha256": sha256 or None,
        "recorder": recorder,
        "recorded_at": format_us(recorded_us),
        "observed_at": format_us(observed_us),
    }
