"""The metric view: every value that pages reported for a checkpoint, as rows; NaN and infinities keep their tag.

Rules. A row is one different value of one metric of one checkpoint and split; the same value said again is no news.
When one segment has several values for a round, the current one is that with the latest `observed_at` (the page's
claim, compared as a number), and of those the one with the highest position; the others stay. A non-finite or
unavailable value is a row too, with its tag or reason, and touches no other.
"""

import sqlite3
from typing import Any

from service.domain import lens
from service.domain.facts import Fact
from service.domain.times import format_us
from service.projections.checkpoints import Reported
from service.projections.projection import Change, JobAsOf, Observed

NAME = "metrics"

_VALUE = """INSERT OR IGNORE INTO metrics (stream, site, sha256, segment, round, split, name, said, value, tag, reason,
 is_late, recorder, position, recorded_us, observed_us) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""
_SELECT = """SELECT segment, round, split, name, value, tag, reason, is_late, recorder, position, recorded_us,
 observed_us, sha256 FROM metrics WHERE stream = ? AND site = ? AND position <= ?"""


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


def observations(
    connection: sqlite3.Connection, job: JobAsOf, names: list[str], split: str | None = None
) -> list[dict[str, Any]]:  # fmt: skip
    """Every observation known at `job.up_to`, by segment, round, split, name and position. `names` empty: all."""
    where, parameters = "", [*job, *names]
    if names:
        where += f" AND name IN ({','.join('?' * len(names))})"
    if split is not None:
        where += " AND split = ?"
        parameters.append(split)
    rows = connection.execute(f"{_SELECT}{where} ORDER BY segment, round, split, name, position", parameters).fetchall()
    current = _current_positions(rows)
    return [_observation(row, current) for row in rows]


def _current_positions(rows: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    newest: dict[tuple[Any, ...], tuple[int, int]] = {}
    for segment, round_number, split, name, *_, position, _, observed_us, _sha in rows:
        point = (segment, round_number, split, name)
        newest[point] = max(newest.get(point, (-1, -1)), (observed_us, position))
    return {(*point, position) for point, (_, position) in newest.items()}


def _observation(row: tuple[Any, ...], current: set[tuple[Any, ...]]) -> dict[str, Any]:
    (segment, round_number, split, name, value, tag, reason, is_late, recorder,
     position, recorded_us, observed_us, sha256) = row  # fmt: skip
    return {
        "segment": segment,
        "round": round_number,
        "split": split,
        "name": name,
        "value": Fact({"non_finite": tag} if tag else value, reason, position),
        "is_current": (segment, round_number, split, name, position) in current,
        "is_late": bool(is_late),
        "sha256": sha256 or None,
        "recorder": recorder,
        "recorded_at": format_us(recorded_us),
        "observed_at": format_us(observed_us),
    }
