"""Which moment an answer is about, and which job: `as_of`, `wait_for`, `site` turned into positions and folds.

As of a time T means the events with `recorded_at` ≤ T; as of a position P means those up to P, and P's `recorded_at` is
then "now". Without `as_of` it is what the views hold, and now is now. A time to come is allowed: it shows what will be
stale if nothing more is heard.
"""

import sqlite3
from typing import Any, NamedTuple

from service.domain.identifiers import job_stream
from service.domain.times import Clock, parse_rfc3339
from service.errors import AmbiguousJob, InvalidField, JobNotFound, Unavailable, UnknownParameter
from service.projections import Views
from service.projections.projection import JobAsOf
from service.projections.streams import NO_SITE, SiteFold
from service.queries.parameters import Cursor, read_cursor, write_cursor
from service.store import EventStore

WAIT_S = 10.0
"""How long `wait_for` waits for the views before the answer is 503."""


class Moment(NamedTuple):
    """The moment that an answer is about: events up to `position`, liveness at `moment_us`."""

    position: int
    moment_us: int


class JobSeen(NamedTuple):
    """One job as of a moment: its key for rows and its state views."""

    job: str
    key: JobAsOf
    fold: SiteFold


class Looking:
    """A look at the views as of one moment. Made for each request."""

    def __init__(self, store: EventStore, views: Views, moment: Moment, after: int) -> None:
        self.store = store
        self.views = views
        self.moment = moment
        self.after = after

    def job(self, connection: sqlite3.Connection, job: str, site: str | None) -> JobSeen:
        """The job with this id. Raises JobNotFound, or AmbiguousJob when two sites have it and `site` is not given."""
        stream = job_stream(job)
        fold = self.views.fold_as_of(connection, stream, self.moment.position, self.store.read)
        sites = fold.sites if fold else {}
        heard = [name for name in sites if name != NO_SITE] or list(sites)
        if site is not None:
            heard = [name for name in heard if name == site]
        if not heard:
            at = f" at {site}" if site is not None else ""
            raise JobNotFound(f"no job {job!r}{at} up to position {self.moment.position}", job=job)
        if len(heard) > 1:
            raise AmbiguousJob(
                f"{len(heard)} sites have a job {job!r}; add ?site= with one of {', '.join(sorted(heard))}",
                job=job, sites=sorted(heard),
            )  # fmt: skip
        return JobSeen(job, JobAsOf(stream, heard[0], self.moment.position), sites[heard[0]])


def next_page(looking: Looking, rows: list[dict[str, Any]], limit: int) -> str | None:
    """The cursor after a full page; None after the last one. Rows have their own `position`."""
    if len(rows) < limit:
        return None
    return write_cursor(Cursor(looking.moment.position, looking.moment.moment_us, rows[-1]["position"]))


def look(
    store: EventStore, views: Views, clock: Clock, *, as_of: str | None, wait_for: int | None, cursor: str | None
) -> Looking:  # fmt: skip
    """A look as of what was asked for; a cursor brings the moment of the list that it continues.

    Raises UnknownParameter for an `as_of` that is neither time nor position and for positions that are not recorded,
    Unavailable when the views do not reach `wait_for` in time.
    """
    if wait_for is not None and wait_for > store.head():
        raise UnknownParameter(
            f"wait_for: got position {wait_for}, the newest is {store.head()}", parameter="wait_for"
        )  # fmt: skip
    if wait_for is not None and views.wait_for(wait_for, WAIT_S) < wait_for:
        raise Unavailable(
            f"the views stand at {views.position()} and did not reach {wait_for} within {WAIT_S:g} s; ask again",
            retry_after_s=1, position=views.position(),
        )  # fmt: skip
    if cursor is not None:
        read = read_cursor(cursor)
        return Looking(store, views, Moment(read.up_to, read.moment_us), read.after)
    return Looking(store, views, _moment(store, views, clock, as_of), 0)


def _moment(store: EventStore, views: Views, clock: Clock, as_of: str | None) -> Moment:
    if as_of is None:
        return Moment(views.position(), clock())
    if as_of.isascii() and as_of.isdigit():
        position = int(as_of)
        if position > store.head():
            raise UnknownParameter(f"as_of: got position {position}, the newest is {store.head()}", parameter="as_of")
        return Moment(min(position, views.position()), store.read_one(position).recorded_at_us if position else 0)
    try:
        moment_us = parse_rfc3339(as_of, "as_of")
    except InvalidField as error:
        raise UnknownParameter(f"{error.message}, or a position", parameter="as_of") from None
    return Moment(min(store.position_at(moment_us), views.position()), moment_us)
