"""Charts: what is unavailable is a gap, what happened has its words, and a renderer takes the specification."""

import vl_convert

from analytics.charts import Mark, Point, metric_by_round

POINTS = [Point("a", 1, 0.5), Point("a", 2, None), Point("a", 3, 0.7)]


def test_unavailable_value_is_a_gap_and_no_zero() -> None:
    [lines, *_] = metric_by_round("t", "loss", POINTS, [])["layer"]
    assert [row["value"] for row in lines["data"]["values"]] == [0.5, None, 0.7]
    assert lines["encoding"]["y"]["scale"] == {"zero": False}


def test_neighbouring_marks_stand_at_different_heights() -> None:
    chart = metric_by_round("t", "loss", POINTS, [Mark(2, "p5 went stale"), Mark(1, "p6 joined")])
    rows = chart["layer"][-1]["data"]["values"]
    assert [(row["words"], row["row"]) for row in rows] == [("p6 joined", 0), ("p5 went stale", 1)]


def test_chart_is_drawn_with_its_words_inert() -> None:
    svg = vl_convert.vegalite_to_svg(metric_by_round("t", "loss", POINTS, [Mark(2, "<script>alert(1)</script>")]))
    assert "<script" not in svg
    assert "&lt;script" in svg
