"""Charts as Vega-Lite specifications: plain JSON, made from rows, drawn elsewhere. Units stand on the axes.

A value that is unavailable or not finite is a gap in its line, never a 0. Specifications name no address to load from.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

Spec = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


class Point(NamedTuple):
    """One value of one series; `value` is None where there is none."""

    series: str
    round: int
    value: float | None


class Mark(NamedTuple):
    """Something that happened in a round, with the words to show for it."""

    round: int
    words: str


def metric_by_round(title: str, metric: str, points: Sequence[Point], marks: Sequence[Mark]) -> Spec:
    """One line per series over the rounds, and a rule with its words for each mark."""
    return {
        "$schema": SCHEMA,
        "title": {"text": title, "anchor": "start"},
        "width": 760,
        "height": 340,
        "config": {"invalidValues": "break-paths-show-path-domains", "view": {"stroke": None}},
        "layer": [_lines(metric, points), *_rules(marks)],
    }


def _lines(metric: str, points: Sequence[Point]) -> Spec:
    return {
        "data": {"values": [point._asdict() for point in points]},
        "mark": {"type": "line", "point": True, "strokeWidth": 2},
        "encoding": {
            "x": {"field": "round", "type": "quantitative", "title": "round", "axis": {"tickMinStep": 1}},
            "y": {"field": "value", "type": "quantitative", "title": metric, "scale": {"zero": False}},
            "color": {"field": "series", "type": "nominal", "title": "job", "scale": {"scheme": "dark2"}},
        },
    }


def _rules(marks: Sequence[Mark]) -> list[Spec]:
    """A dashed line for each mark; words of neighbours stand at different heights, so that none covers another."""
    rows = [{**mark._asdict(), "row": at % 6} for at, mark in enumerate(sorted(marks))]
    x = {"field": "round", "type": "quantitative"}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeDash": [4, 3], "color": "#888"},
            "encoding": {"x": x},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11, "color": "#333"},
            "encoding": {
                "x": x,
                "y": {"field": "row", "type": "ordinal", "axis": None, "scale": {"range": [330, 190]}},
                "text": {"field": "words"},
            },
        },
    ]
