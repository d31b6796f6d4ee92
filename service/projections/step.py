"""What the views that look at change are given: one snapshot, and what it changed in the job's other views.

Most snapshots repeat the one before in all but a time. What changed is found here once, so that the views behind it
cost nothing for what stays the same.
"""

from typing import NamedTuple

from service.domain import lens
from service.domain.lens import Execution
from service.projections.jobs import JobView, Page, limit_of, page_that_counts
from service.projections.participants import ParticipantsView, Said, Seen, said_that_counts
from service.projections.projection import Observed
from service.projections.thresholds import Thresholds


class Told(NamedTuple):
    """A participant whose word that counts is in this snapshot and is not the word that counted before."""

    participant: str
    said: Said
    before: Said | None
    execution: Execution
    execution_before: Execution | None


class Step(NamedTuple):
    """One `state.reported` on its way through a job's views."""

    observed: Observed
    page: Page
    """The page that sent it, after it."""
    page_before: Page | None
    counts: Page | None
    """The page whose word about the job counts, after it."""
    is_job_new: bool
    """Whether this page says anything else about the job than before."""
    job: JobView
    people_before: ParticipantsView
    people: ParticipantsView
    listed: list[tuple[str, Seen]]
    """Everyone in this snapshot."""
    told: list[Told]
    limit_us: int
    thresholds: Thresholds


def step_of(
    observed: Observed, jobs: tuple[JobView, JobView], people: tuple[ParticipantsView, ParticipantsView],
    thresholds: Thresholds,
) -> Step:  # fmt: skip
    """The step from the views before to those after `observed`; nothing of it is stored."""
    recorder = observed.event.source.recorder
    page, page_before = jobs[1].pages[recorder], jobs[0].pages.get(recorder)
    counts = page_that_counts(jobs[1])
    limit_us = limit_of(counts, thresholds.stale_after_us)
    listed = [(name, people[1].seen[name]) for name in observed.snapshot.participants if name in people[1].seen]
    return Step(
        observed, page, page_before, counts,
        page_before is None or page.job is not page_before.job,
        jobs[1], people[0], people[1], listed, _told(listed, people[0], observed.position, limit_us),
        limit_us, thresholds,
    )  # fmt: skip


def _told(listed: list[tuple[str, Seen]], before: ParticipantsView, position: int, limit_us: int) -> list[Told]:
    found = []
    for participant, seen in listed:
        said, was = said_that_counts(seen, limit_us), before.seen.get(participant)
        if said.position != position:
            continue
        said_before = said_that_counts(was, limit_us) if was else None
        if said_before is None or _is_news(said, said_before):
            old = lens.execution_of(said_before.word) if said_before else None
            found.append(Told(participant, said, said_before, lens.execution_of(said.word), old))
    return found


def _is_news(said: Said, before: Said) -> bool:
    """Whether anything but the time of the report differs: another page, another execution, another status."""
    return said.recorder != before.recorder or not lens.says_the_same(said.word, before.word)
