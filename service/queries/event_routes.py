"""GET endpoints over the events themselves: a job's stream in order, and one event with its payload as received."""

from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromPath, FromQuery

from service.domain.envelope import StoredEvent, envelope_dict
from service.domain.events import SERVICE_TYPES
from service.errors import EventNotFound, NotFound
from service.projections import documents
from service.queries.history import Looking, next_page
from service.queries.parameters import Limit
from service.queries.responses import ANSWERS, Asked, Looked, answer, answer_list

SCAN_EVENTS = 1000
"""Events read at a time while looking for those of one type or site."""


@get("/v1/jobs/{job:str}/events", sync_to_thread=True, responses=ANSWERS)
def list_events(
    *, request: Asked, job: FromPath[str], looking: Looked, site: FromQuery[str | None] = None,
    type: FromQuery[str | None] = None, limit: Limit = 100,  # noqa: A002 - the name of the field in an event
) -> Response[bytes]:  # fmt: skip
    """The events of a job in order, payloads as received. `type` and `site` filter."""
    with looking.views.reading() as connection:
        seen = looking.job(connection, job, site)
    rows = [event_row(stored) for stored in _matching(looking, seen.key.stream, site, type, limit)]
    return answer_list(request, "events", rows, looking.moment, next_page(looking, rows, limit))


def _matching(
    looking: Looking, stream: str, site: str | None, kind: str | None, limit: int
) -> list[StoredEvent]:  # fmt: skip
    found: list[StoredEvent] = []
    after = looking.after
    while len(found) < limit:
        events = looking.store.read(after, SCAN_EVENTS, looking.moment.position, stream)
        found += [stored for stored in events if _fits(stored, site, kind)]
        if len(events) < SCAN_EVENTS:
            break
        after = events[-1].position
    return found[:limit]


def _fits(stored: StoredEvent, site: str | None, kind: str | None) -> bool:
    event = stored.event
    is_of_site = site is None or event.source.site == site or event.type in SERVICE_TYPES
    return is_of_site and kind in (None, event.type)


@get("/v1/documents/{kind:str}", sync_to_thread=True, responses=ANSWERS)
def list_documents(
    request: Asked, kind: FromPath[str], looking: Looked, site: FromQuery[str | None] = None, limit: Limit = 100
) -> Response[bytes]:  # fmt: skip
    """Documents without a published schema, as they were returned: `saved-jobs`, `storage` or `demos`, with history."""
    if kind not in documents.KINDS:
        raise NotFound(f"got {kind[:40]!r}, wanted one of {', '.join(documents.KINDS)}", kind=kind[:40])
    asked = documents.Asked(documents.KINDS[kind], site)
    with looking.views.reading() as connection:
        up_to = looking.moment.position
        positions = documents.positions_as_of(connection, asked, looking.after, up_to, limit)
    rows = [event_row(looking.store.read_one(position)) for position in positions]
    return answer_list(request, "documents", rows, looking.moment, next_page(looking, rows, limit))


@get("/v1/events/{position:int}", sync_to_thread=True, responses=ANSWERS)
def show_event(request: Asked, position: FromPath[int], looking: Looked) -> Response[bytes]:
    """One event: its envelope, and its payload as received (null once erased)."""
    if not 1 <= position <= looking.moment.position:
        raise EventNotFound(f"there is no event at position {position}", position=position)
    return answer(request, event_row(looking.store.read_one(position)), looking.moment)


def event_row(stored: StoredEvent) -> dict[str, Any]:
    """An event as an answer: the fields of its leaf, and the payload as received."""
    data = None if stored.is_erased else msgspec.Raw(stored.data)
    return {**envelope_dict(stored), "is_erased": stored.is_erased, "data": data}


event_handlers = [list_events, show_event, list_documents]
