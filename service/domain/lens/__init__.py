"""The one place that knows where each fact stands in a State document.

The page API publishes which facts exist, not their field paths; the paths here are ours. A corrected path plus a
rebuild repairs every view. What comes out is a typed value or a Fact with the reason why it is unavailable
(`service.domain.readers`). The outline (objects where objects belong, lists of objects with ids) must hold or
MalformedState is raised: the event is then quarantined, never guessed at. Views keep words, the parts of a document as
a page said them, and read facts out of them here when asked.
"""

from service.domain.lens.derived import (
    DIRECTIONS,
    FLOAT_MAX,
    MetricValue,
    aggregation,
    aggregation_settings,
    epochs,
    metric_directions,
    metric_values,
    pending_invitations,
    phase,
    round_of,
    stage_durations_s,
    stale_after_us,
    transfer,
)
from service.domain.lens.outline import OWNER, Snapshot
from service.domain.lens.tables import (
    CHECKPOINT_FACTS,
    EXECUTION_FACTS,
    JOB_FACTS,
    LIMIT_FACTS,
    PAGE_FACTS,
    PARTICIPANT_FACTS,
    TRANSFER_FACTS,
    read_all,
)
from service.domain.lens.tracks import (
    LEFT,
    Execution,
    Marker,
    execution_of,
    is_gpu,
    job_counters,
    job_track,
    job_words,
    local_workers,
    marker,
    moved_on,
    participant_track,
    says_the_same,
    status,
)

__all__ = [
    "CHECKPOINT_FACTS",
    "DIRECTIONS",
    "EXECUTION_FACTS",
    "FLOAT_MAX",
    "JOB_FACTS",
    "LEFT",
    "LIMIT_FACTS",
    "OWNER",
    "PAGE_FACTS",
    "PARTICIPANT_FACTS",
    "TRANSFER_FACTS",
    "Execution",
    "Marker",
    "MetricValue",
    "Snapshot",
    "aggregation",
    "aggregation_settings",
    "epochs",
    "execution_of",
    "is_gpu",
    "job_counters",
    "job_track",
    "job_words",
    "local_workers",
    "marker",
    "metric_directions",
    "metric_values",
    "moved_on",
    "participant_track",
    "pending_invitations",
    "phase",
    "read_all",
    "round_of",
    "says_the_same",
    "stage_durations_s",
    "stale_after_us",
    "status",
    "transfer",
]
