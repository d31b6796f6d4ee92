"""The state views of one stream folded together: what is kept live, kept in fold caches, and folded on to any moment.

A job is (site, id) and a stream is named by the id alone, so a stream holds a fold for each site. Events that the
service makes name no page's site; they only show that the job exists. Each view is guarded for itself.
"""

import msgspec

from service.domain.envelope import StoredEvent
from service.domain.events import SERVICE_TYPES, STATE_REPORTED
from service.projections import jobs, participants
from service.projections.jobs import JobView
from service.projections.participants import ParticipantsView
from service.projections.projection import Change, Failure, Observed, guarded

NO_SITE = ""
"""The site of a job of which only the service spoke: something was archived, and no page was heard yet."""
STATE_VIEWS = (jobs.NAME, participants.NAME)


class SiteFold(msgspec.Struct, frozen=True, array_like=True):
    """Every state view of one job."""

    first_position: int
    last_position: int
    last_recorded_at_us: int
    job: JobView = JobView()
    participants: ParticipantsView = ParticipantsView()


class StreamFold(msgspec.Struct, frozen=True, array_like=True):
    """The jobs of one stream, by site. `position` is the last event folded."""

    position: int = 0
    sites: dict[str, SiteFold] = {}


class Folded(msgspec.Struct, frozen=True):
    """What folding one event gives: the stream's views after it, rows, and views that could not apply it."""

    fold: StreamFold
    changes: list[Change]
    failures: list[Failure]


def fold_stream(stream: StreamFold, observed: Observed, stale_limit_us: int) -> Folded:
    """The stream's views after one more event of it."""
    changes: list[Change] = []
    failures: list[Failure] = []
    site = _site_of(stream, observed)
    before = stream.sites.get(site)
    first = before.first_position if before else observed.position
    job, people = (before.job, before.participants) if before else (JobView(), ParticipantsView())
    if observed.event.type == STATE_REPORTED and not observed.stored.is_erased:
        job = guarded(jobs.NAME, lambda: jobs.fold(job, observed), failures) or job
        people = guarded(participants.NAME, lambda: participants.fold(people, observed, job), failures) or people
    fold = SiteFold(first, observed.position, observed.recorded_at_us, job, people)
    return Folded(StreamFold(observed.position, {**stream.sites, site: fold}), changes, failures)


def fold_on(stream: StreamFold, events: list[StoredEvent], stale_limit_us: int) -> StreamFold:
    """The stream's views after more events of it, for looking back: rows and failures were kept the first time."""
    for stored in events:
        stream = fold_stream(stream, Observed(stored), stale_limit_us).fold
    return stream


def _site_of(stream: StreamFold, observed: Observed) -> str:
    if observed.event.type not in SERVICE_TYPES:
        return observed.event.source.site
    return next(iter(stream.sites), NO_SITE)
