"""The checkpoint view, writing side: each different word that a page said of a checkpoint.

Rules. A checkpoint is known by its sha256; several of one round can stand side by side, nothing is overwritten. A word
that was said before, by whichever page, is no news. Each checkpoint belongs to a segment, an unbroken run of training:
1. a sha256 that is known stays in its segment; so does the known parent of a checkpoint that came before it;
2. a child of its segment's newest checkpoint continues that segment; a child of an older one opens a new segment;
3. without a known parent: a higher round continues the current segment; a word observed before the newest one is a late
   one of the current segment; the same round without sha256 corrects it; anything else opens a new segment.
"""

import hashlib
import sqlite3
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from service.domain import lens
from service.domain.readers import Word
from service.projections.projection import Change, Observed

NAME = "checkpoints"

_REPORTED = """INSERT OR IGNORE INTO checkpoint_reports (stream, site, digest, sha256, parent_sha256, round, segment,
 is_late, is_owner, recorder, position, recorded_us, observed_us, word) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""
_KNOWN = """SELECT digest, sha256, parent_sha256, round, segment, observed_us FROM checkpoint_reports
 WHERE stream = ? AND site = ? ORDER BY position, rowid"""

_canonical = msgspec.json.Encoder(order="sorted").encode


class Tip(NamedTuple):
    """The newest checkpoint of a segment."""

    sha256: str
    round: int | None
    observed_us: int


class Reported(NamedTuple):
    """A word about a checkpoint that was not said before. `sha256` is empty when the page did not tell it."""

    digest: bytes
    sha256: str
    parent_sha256: str | None
    round: int | None
    segment: int
    is_late: bool
    word: Word


@dataclass
class Known:
    """What is known of one job's checkpoints: enough to tell a new word from an old one and to find its segment.

    It can be made anew from the rows at any time. `heard` holds each page's last list, only to skip what it repeats.
    """

    digests: set[bytes] = field(default_factory=set)
    segments: dict[str, int] = field(default_factory=dict)
    parents: dict[str, int] = field(default_factory=dict)
    tips: dict[int, Tip] = field(default_factory=dict)
    current: int = 1
    heard: dict[str, list[Word]] = field(default_factory=dict)


def load_known(connection: sqlite3.Connection, stream: str, site: str) -> Known:
    """What is known from the rows stored so far."""
    known = Known()
    for digest, sha256, parent, round_number, segment, observed_us in connection.execute(_KNOWN, (stream, site)):
        _learn(known, Reported(digest, sha256, parent, round_number, segment, False, {}), observed_us)
    return known


def fold(known: Known, observed: Observed) -> tuple[list[Reported], list[Change]]:
    """The new words of one `state.reported` and their rows; `known` grows by them."""
    words, recorder = observed.snapshot.checkpoints, observed.event.source.recorder
    heard = known.heard.get(recorder, [])
    known.heard[recorder] = words
    if words == heard:
        return [], []
    news = [_learned(known, word, observed) for i, word in enumerate(words) if i >= len(heard) or heard[i] != word]
    reported = [new for new in news if new is not None]
    return reported, [_row(new, observed) for new in reported]


def _learned(known: Known, word: Word, observed: Observed) -> Reported | None:
    digest = hashlib.sha256(_canonical(word)).digest()[:16]
    if digest in known.digests:
        return None
    facts = lens.read_all(word, lens.CHECKPOINT_FACTS, None)
    sha256, parent = facts["sha256"].value or "", facts["parent_sha256"].value
    round_number, observed_us = lens.round_of(word), observed.event.observed_at_us
    segment = _segment(known, sha256, parent, round_number, observed_us)
    tip = known.tips.get(segment)
    is_late = tip is not None and None not in (round_number, tip.round) and round_number < tip.round  # type: ignore[operator]
    new = Reported(digest, sha256, parent, round_number, segment, is_late and sha256 not in known.segments, word)
    _learn(known, new, observed_us)
    return new


def _segment(known: Known, sha256: str, parent: str | None, round_number: int | None, observed_us: int) -> int:
    if sha256 and sha256 in known.segments:
        return known.segments[sha256]
    if sha256 and sha256 in known.parents:
        return known.parents[sha256]
    if parent is not None and parent in known.segments:
        segment = known.segments[parent]
        return segment if known.tips[segment].sha256 == parent else max(known.tips) + 1
    tip = known.tips.get(known.current)
    if tip is None or tip.round is None or round_number is None or round_number > tip.round:
        return known.current
    is_correction = round_number == tip.round and not (sha256 and tip.sha256)
    if observed_us < tip.observed_us or is_correction:
        return known.current
    return max(known.tips) + 1


def _learn(known: Known, new: Reported, observed_us: int) -> None:
    known.digests.add(new.digest)
    known.current = max(known.current, new.segment)
    if new.sha256:
        known.segments.setdefault(new.sha256, new.segment)
    if new.parent_sha256 is not None:
        known.parents.setdefault(new.parent_sha256, new.segment)
    tip = known.tips.get(new.segment)
    if tip is None or tip.round is None or (new.round is not None and new.round >= tip.round):
        known.tips[new.segment] = Tip(new.sha256, new.round, observed_us)


def _row(new: Reported, observed: Observed) -> Change:
    event = observed.event
    return _REPORTED, (
        event.stream, event.source.site, new.digest, new.sha256, new.parent_sha256, new.round, new.segment,
        new.is_late, observed.snapshot.is_owner, event.source.recorder, observed.position, observed.recorded_at_us,
        event.observed_at_us, msgspec.json.encode(new.word).decode(),
    )  # fmt: skip
