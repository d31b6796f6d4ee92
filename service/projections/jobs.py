"""The job view: what each page says of the job, and whose word counts.

Rules. Each recorder's page keeps its latest word. For state, rounds, settings and checkpoints the job owner's page
counts; without one, the page heard last. A word without a job section leaves the last job section standing. A snapshot
that arrives after a later one of the same recorder (lower `seq`) changes nothing here. Commands never change a job:
only what a page reports does. At most PAGES_MAX pages are kept; the one silent for longest goes.
"""

import sqlite3
from typing import Any

import msgspec

from service.domain import lens
from service.domain.facts import Fact
from service.domain.readers import Word
from service.projections.projection import Observed

NAME = "jobs"
PAGES_MAX = 256


class Page(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The latest word of one recorder's page. `job_position` is where the job section was last reported.

    `entries` is the length of its list of participants: more than the ids in it when one id is listed twice (F32).
    """

    seq: int
    position: int
    recorded_at_us: int
    is_owner: bool
    own_participant: str | None
    entries: int
    job: Word | None
    job_position: int | None
    said: Word


class JobView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the pages of one job say, by recorder."""

    pages: dict[str, Page] = {}

    @property
    def has_owner(self) -> bool:
        """Whether the owner's page was ever heard."""
        return any(page.is_owner for page in self.pages.values())


def fold(view: JobView, observed: Observed) -> JobView:
    """The view after one `state.reported`."""
    if is_overtaken(view, observed):
        return view
    snapshot, recorder = observed.snapshot, observed.event.source.recorder
    before = view.pages.get(recorder)
    job, job_position = snapshot.job, observed.position
    if before is not None and job is None:
        job, job_position = before.job, before.job_position or 0
    elif before is not None and job == before.job:
        job = before.job  # the same object, so that whoever comes after sees at a glance that nothing changed
    page = Page(
        observed.event.source.seq,
        observed.position,
        observed.recorded_at_us,
        snapshot.is_owner,
        snapshot.own_participant,
        len(snapshot.entries),
        job,
        job_position if job is not None else None,
        snapshot.page,
    )
    return JobView(_bounded({**view.pages, recorder: page}))


def is_overtaken(view: JobView, observed: Observed) -> bool:
    """Whether a later snapshot of the same recorder came before this one."""
    page = view.pages.get(observed.event.source.recorder)
    return page is not None and page.seq > observed.event.source.seq


def _bounded(pages: dict[str, Page]) -> dict[str, Page]:
    if len(pages) > PAGES_MAX:
        del pages[min(pages, key=lambda recorder: (pages[recorder].is_owner, pages[recorder].position))]
    return pages


def page_that_counts(view: JobView) -> Page | None:
    """The owner's page heard last; without an owner's, the page heard last. Only pages that name a job."""
    if len(view.pages) == 1:
        [only] = view.pages.values()
        return only if only.job is not None else None
    named = [page for page in view.pages.values() if page.job is not None]
    return max(named, key=lambda page: (page.is_owner, page.position), default=None)


def own_page(view: JobView, participant: str) -> Page | None:
    """The page of this participant that was heard last."""
    own = [page for page in view.pages.values() if page.own_participant == participant]
    return max(own, key=lambda page: page.position, default=None)


def stale_limit_us(view: JobView, default_us: int) -> int:
    """After how long without fresh evidence a participant of this job is stale."""
    return limit_of(page_that_counts(view), default_us)


def limit_of(counts: Page | None, default_us: int) -> int:
    """The limit for liveness that the page that counts reports, else the default."""
    return (lens.stale_after_us(counts.job) if counts else None) or default_us


def job_facts(view: JobView) -> dict[str, Any]:
    """The job as the page that counts reports it: facts by name, and the conflict between `epochs` and `rounds`."""
    page = page_that_counts(view)
    word, position = (page.job, page.job_position) if page else (None, None)
    facts: dict[str, Any] = lens.read_all(word, lens.JOB_FACTS, position)
    facts["epochs"], conflict = lens.epochs(word, position)
    facts["aggregation"] = lens.aggregation(word, position)
    facts["aggregation_settings"] = lens.aggregation_settings(word, position)
    facts["counts_rounds"] = Fact(facts["units_per_assignment"].reason is None, None, position)
    facts["epochs_conflict"] = conflict
    facts["metrics"] = [
        {"key": key, "label": label, "direction": direction} for key, label, direction in lens.metric_directions(word)
    ]
    facts["invitations"] = lens.pending_invitations(page.said if page else None)
    facts["transfer"] = lens.transfer(page.said if page else None, page.position if page else None)
    return facts


def jobs_as_of(
    connection: sqlite3.Connection, up_to: int, after: int, limit: int, site: str | None
) -> list[tuple[int, str, str]]:  # fmt: skip
    """(first position, stream, site) of jobs first heard of in (after, up_to], oldest first.

    A stream of which only the service spoke counts as a job until a page is heard of.
    """
    statement = """SELECT first_position, stream, site FROM jobs j WHERE first_position > ? AND first_position <= ?
     AND (site = ? OR ? IS NULL) AND (site != '' OR NOT EXISTS (SELECT 1 FROM jobs o WHERE o.stream = j.stream
     AND o.site != '' AND o.first_position <= ?)) ORDER BY first_position LIMIT ?"""
    return list(connection.execute(statement, (after, up_to, site, site, up_to, limit)))


def directions(view: JobView) -> dict[str, str]:
    """Direction (min, max) of each metric whose direction the selected model tells."""
    page = page_that_counts(view)
    word = page.job if page else None
    return {key: direction for key, _, direction in lens.metric_directions(word) if direction is not None}
