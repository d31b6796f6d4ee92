"""What the views that look at change are given: the event, and the job's other views before and after it."""

from typing import NamedTuple

from service.projections.jobs import JobView
from service.projections.participants import ParticipantsView
from service.projections.projection import Observed
from service.projections.thresholds import Thresholds


class Step(NamedTuple):
    """One `state.reported` on its way through a job's views. `limit_us` is the job's limit for liveness."""

    observed: Observed
    job_before: JobView
    job: JobView
    people_before: ParticipantsView
    people: ParticipantsView
    limit_us: int
    thresholds: Thresholds
