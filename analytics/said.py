"""What the lake's sealed rows said, loaded again at start, so that a repeat after a restart is still a repeat."""

from typing import TYPE_CHECKING

from analytics.rows import MetricSaid, Said, StageSeen

if TYPE_CHECKING:
    from analytics.lake import Lake

_CHECKPOINTS = (
    "SELECT DISTINCT job, site, concat(coalesce(sha256, 'None'), ':', coalesce(round::TEXT, 'None')) FROM checkpoints"
)
_METRICS = """SELECT job, site, sha256, round, split, name, value, value_tag, reason,
    last_value(direction IGNORE NULLS) OVER (PARTITION BY job, site, sha256, round, split, name ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
FROM metrics
QUALIFY row_number() OVER (PARTITION BY job, site, sha256, round, split, name ORDER BY position DESC) = 1"""
_STAGES = """SELECT job, recorder, participant, stage, stage_sequence, assignment_id, assignment_round FROM snapshots
WHERE is_own_page QUALIFY row_number() OVER (PARTITION BY job, recorder, participant ORDER BY position DESC) = 1"""


def load_said(lake: "Lake") -> Said:
    """What `rows_of` compares with, from what is sealed."""
    said = Said()
    with lake.look() as look:
        cursor = look.cursor
        said.checkpoints = set(cursor.execute(_CHECKPOINTS).fetchall())
        for job, site, sha256, number, split, name, value, tag, reason, direction in cursor.execute(
            _METRICS
        ).fetchall():
            key = (job, site, f"{sha256}:{number}", split, name)
            said.metrics[key] = MetricSaid(tag or reason or repr(value), direction)
        for job, recorder, participant, *stage in cursor.execute(_STAGES).fetchall():
            said.stages[job, recorder, participant] = StageSeen(*stage)
    return said
