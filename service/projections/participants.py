"""The participant view: the latest words about each participant, evidence of life, and who left.

Rules. A participant's own page counts for its execution; another page's word counts when there is no own page, or when
the own page is silent while others see the participant report on for longer than the limit. Evidence of life is a
snapshot of the own page, the first sighting in the job, or another page's snapshot in which the report marker moved on
against the same page's snapshot before. Who left is told by the own page or the owner's page (any page while the
owner's was never heard); the latest change of such a word counts. A snapshot that arrives after a later one of the
same recorder (lower `seq`) changes nothing here.
"""

from typing import Any

import msgspec

from service.domain import lens
from service.domain.facts import Fact
from service.domain.readers import Word
from service.projections.jobs import JobView, is_overtaken, own_page
from service.projections.liveness import Liveness, judge_liveness
from service.projections.projection import Observed

NAME = "participants"
LISTINGS_MAX = 256


class Said(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one page said of a participant, and the event that holds it."""

    recorder: str
    position: int
    recorded_at_us: int
    word: Word


class Listing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one page last listed a participant: report marker and status, to see whether either moves."""

    marker: lens.Marker
    status: str | None


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One participant. `moved_us` is when a page that is not its own last saw it report on."""

    first_position: int
    evidence_position: int
    evidence_us: int
    own: Said | None = None
    other: Said | None = None
    moved_us: int | None = None
    status: str | None = None
    status_position: int | None = None
    listings: dict[str, Listing] = {}


class ParticipantsView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everyone who was ever listed in the job."""

    seen: dict[str, Seen] = {}


def fold(view: ParticipantsView, observed: Observed, job: JobView) -> ParticipantsView:
    """The view after one `state.reported`; `job` is the job view after the same event."""
    if is_overtaken(job, observed):
        return view
    snapshot = observed.snapshot
    own_id, judges = snapshot.own_participant, snapshot.is_owner or not job.has_owner
    seen = dict(view.seen)
    for participant, word in snapshot.participants.items():
        is_own = participant == own_id
        said = Said(
            observed.event.source.recorder, observed.position, observed.recorded_at_us,
            snapshot.own_word(word) if is_own else word,
        )  # fmt: skip
        before = seen.get(participant) or Seen(observed.position, observed.position, observed.recorded_at_us)
        seen[participant] = _sighted(before, said, is_own, is_own or judges)
    return ParticipantsView(seen)


def _sighted(before: Seen, said: Said, is_own: bool, counts_for_status: bool) -> Seen:
    """The participant after one more word; `counts_for_status` when this page may tell who left."""
    now_us, position = said.recorded_at_us, said.position
    listed = before.listings.get(said.recorder)
    listing = Listing(lens.marker(said.word), lens.status(said.word))
    has_moved = listed is not None and lens.moved_on(listed.marker, listing.marker)
    is_evidence = is_own or has_moved
    is_change = listing.status is not None and (listed is None or listed.status != listing.status)
    takes_status = counts_for_status and is_change
    return Seen(
        before.first_position,
        position if is_evidence else before.evidence_position,
        now_us if is_evidence else before.evidence_us,
        said if is_own else before.own,
        before.other if is_own else said,
        now_us if has_moved and not is_own else before.moved_us,
        listing.status if takes_status else before.status,
        position if takes_status else before.status_position,
        before.listings if listed == listing else _bounded(before.listings, said.recorder, listing),
    )


def _bounded(listings: dict[str, Listing], recorder: str, listing: Listing) -> dict[str, Listing]:
    """The listings with this one as the newest; beyond LISTINGS_MAX the page whose listing changed longest ago goes."""
    if len(listings) == 1 and recorder in listings:
        return {recorder: listing}
    kept = dict(listings)
    kept.pop(recorder, None)
    if len(kept) >= LISTINGS_MAX:
        del kept[next(iter(kept))]
    kept[recorder] = listing
    return kept


def said_that_counts(seen: Seen, limit_us: int) -> Said:
    """Whose word counts for this participant's execution."""
    if seen.own is None or seen.other is None:
        return seen.own or seen.other or _never()
    is_own_silent = seen.moved_us is not None and seen.moved_us - seen.own.recorded_at_us > limit_us
    return seen.other if is_own_silent else seen.own


def _never() -> Said:
    raise AssertionError("a participant is seen only by being listed")


def is_gone(seen: Seen) -> bool:
    """Whether the word that counts says that it left."""
    return seen.status == lens.LEFT


def liveness(seen: Seen, moment_us: int, limit_us: int) -> Liveness:
    """Liveness at a moment (µs UTC, our clock)."""
    return judge_liveness(seen.evidence_us, seen.evidence_position, is_gone(seen), moment_us, limit_us)


def participant_facts(seen: Seen, participant: str, job: JobView, limit_us: int) -> dict[str, Any]:
    """Every fact about one participant with the event it came from: its place, its execution, its limits."""
    said = said_that_counts(seen, limit_us)
    facts: dict[str, Any] = lens.read_all(said.word, lens.PARTICIPANT_FACTS, said.position)
    if seen.status is not None:
        facts["status"] = Fact(seen.status, None, seen.status_position)
    page = own_page(job, participant)
    position = page.position if page else None
    return {
        "facts": facts,
        "execution": {
            **lens.read_all(said.word, lens.EXECUTION_FACTS, said.position),
            "stage_durations_s": lens.stage_durations_s(said.word, said.position),
        },
        "limits": lens.read_all(page.said if page else None, lens.LIMIT_FACTS, position),
        "page": {
            **lens.read_all(page.said if page else None, lens.PAGE_FACTS, position),
            "local_workers": lens.read_all(page.job if page else None, lens.JOB_FACTS, position)["local_workers"],
        },
        "told_by": {"recorder": said.recorder, "position": said.position, "is_own_page": said is seen.own},
    }
