"""The state views of one stream folded together: what is kept live, kept in fold caches, and folded on to any moment.

A job is (site, id) and a stream is named by the id alone, so a stream holds a fold for each site. Events that the
service makes name no page's site; they only show that the job exists. Each view is guarded for itself.
"""

import msgspec

from service.domain.envelope import StoredEvent
from service.domain.events import SERVICE_TYPES, STATE_REPORTED
from service.projections import diagnostics, jobs, participants, timeline
from service.projections.diagnostics import DiagnosticsView
from service.projections.jobs import JobView
from service.projections.participants import ParticipantsView
from service.projections.projection import Change, Failure, Observed, guarded
from service.projections.step import step_of
from service.projections.thresholds import Thresholds
from service.projections.timeline import TimelineView

NO_SITE = ""
"""The site of a job of which only the service spoke: something was archived, and no page was heard yet."""


class SiteFold(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every state view of one job."""

    first_position: int
    last_position: int = 0
    last_recorded_at_us: int = 0
    job: JobView = JobView()
    participants: ParticipantsView = ParticipantsView()
    timeline: TimelineView = TimelineView()
    diagnostics: DiagnosticsView = DiagnosticsView()


class StreamFold(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The jobs of one stream, by site. `position` is the last event folded."""

    position: int = 0
    sites: dict[str, SiteFold] = {}


class Folded(msgspec.Struct, frozen=True, gc=False):
    """What folding one event gives: the stream's views after it, rows, and views that could not apply it."""

    fold: StreamFold
    changes: list[Change]
    failures: list[Failure]


def fold_stream(stream: StreamFold, observed: Observed, thresholds: Thresholds) -> Folded:
    """The stream's views after one more event of it."""
    changes: list[Change] = []
    failures: list[Failure] = []
    site = _site_of(stream, observed)
    fold = stream.sites.get(site) or SiteFold(observed.position)
    if observed.event.type == STATE_REPORTED and not observed.stored.is_erased:
        fold = _fold_state(fold, observed, thresholds, changes, failures)
    fold = SiteFold(
        fold.first_position, observed.position, observed.recorded_at_us,
        fold.job, fold.participants, fold.timeline, fold.diagnostics,
    )  # fmt: skip
    return Folded(StreamFold(observed.position, {**stream.sites, site: fold}), changes, failures)


def _fold_state(
    before: SiteFold, observed: Observed, thresholds: Thresholds, changes: list[Change], failures: list[Failure]
) -> SiteFold:  # fmt: skip
    """Job and participants first; then the views that look at what changed, which need both."""
    job = guarded(jobs.NAME, lambda: jobs.fold(before.job, observed), failures)
    if job is None:
        return before
    people = guarded(participants.NAME, lambda: participants.fold(before.participants, observed, job), failures)
    if people is None:
        return msgspec.structs.replace(before, job=job)
    if job is before.job:
        return _fold_overtaken(before, observed, changes, failures)
    step = step_of(observed, (before.job, job), (before.participants, people), thresholds)
    line = guarded(timeline.NAME, lambda: timeline.fold(before.timeline, step), failures)
    flags = guarded(diagnostics.NAME, lambda: diagnostics.fold(before.diagnostics, step), failures)
    for moved in (line, flags):
        changes += moved[1] if moved else ()
    kept_line, kept_flags = line[0] if line else before.timeline, flags[0] if flags else before.diagnostics
    return SiteFold(
        before.first_position, before.last_position, before.last_recorded_at_us, job, people, kept_line, kept_flags
    )


def _fold_overtaken(
    before: SiteFold, observed: Observed, changes: list[Change], failures: list[Failure]
) -> SiteFold:  # fmt: skip
    changes += guarded(diagnostics.NAME, lambda: diagnostics.overtaken(observed), failures) or []
    return before


def fold_on(stream: StreamFold, events: list[StoredEvent], thresholds: Thresholds) -> StreamFold:
    """The stream's views after more events of it, for looking back: rows and failures were kept the first time."""
    for stored in events:
        stream = fold_stream(stream, Observed(stored), thresholds).fold
    return stream


def _site_of(stream: StreamFold, observed: Observed) -> str:
    if observed.event.type not in SERVICE_TYPES:
        return observed.event.source.site
    return next(iter(stream.sites), NO_SITE)
