"""The demo's picture: validation accuracy of every job by round, with what went wrong in one. Drawn offline."""

from pathlib import Path

from analytics.charts import Mark, Point, Spec, metric_by_round
from service.demo.lookback import Incident, JobFound

PICTURE_NAME = "demo.svg"
_WORDS = {
    "joined-late": "{who} joined",
    "left-early": "{who} left",
    "went-stale": "{who} went stale; its late result was refused",
    "training-raised": "{who} raised in training",
    "command-refused": "start was refused",
}


def draw(jobs: list[JobFound], folder: Path) -> Path | None:
    """Write the picture into the data folder; its path, or None where vl-convert (extra `charts`) is not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    path = folder / PICTURE_NAME
    path.write_text(vl_convert.vegalite_to_svg(chart(jobs)), encoding="utf-8")
    return path


def chart(jobs: list[JobFound]) -> Spec:
    """The picture as a Vega-Lite specification. Incidents are those of the job that shows the most kinds."""
    points = [Point(job.id, number, value) for job in jobs for number, value in enumerate(job.history)]
    eventful = max(jobs, key=lambda job: len({incident.kind for incident in job.incidents}))
    title = f"Validation accuracy by round, and what went wrong in {eventful.id}"
    marks = [mark for incident in eventful.incidents if (mark := _mark(incident)) is not None]
    return metric_by_round(title, "accuracy (more is better)", points, marks)


def _mark(incident: Incident) -> Mark | None:
    """What to write at the round; None for an incident of no round."""
    words = _WORDS.get(incident.kind)
    return (
        None
        if words is None or incident.round is None
        else Mark(incident.round, words.format(who=incident.participant))
    )
