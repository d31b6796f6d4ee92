"""What a view is made of: an event opened for folding, the changes that a fold gives, and a fold that failed.

A fold is a pure function `(view, observed) -> (view, changes)`: it computes and never stores. A change is one SQL
statement with its values; the views apply changes and progress in one transaction. Every row carries the position at
which it became known, so that "as of P" is a filter. Nothing here knows SQLite.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from service.domain.envelope import NewEvent, StoredEvent
from service.domain.lens import Snapshot
from service.domain.once import once
from service.domain.upcasters import upcast

Change = tuple[str, tuple[Any, ...]]
"""A statement and its values."""
T = TypeVar("T")

_decode = msgspec.json.Decoder().decode


class Observed:
    """One stored event, its payload decoded once however many views look at it."""

    def __init__(self, stored: StoredEvent) -> None:
        self.stored = stored
        self.event: NewEvent = stored.event
        self.position = stored.position
        self.recorded_at_us = stored.recorded_at_us

    @once
    def data(self) -> Any:
        """The payload in today's shape (`service.domain.upcasters`)."""
        return upcast(self.event.type, self.event.schema_version, _decode(self.event.data))

    @once
    def snapshot(self) -> Snapshot:
        """The payload as a State document. Raises MalformedState."""
        return Snapshot(self.data)

    def data_as(self, kind: type[T]) -> T:
        """The payload as a Struct of `service.domain.events`. Raises msgspec.ValidationError."""
        return msgspec.convert(self.data, kind)


class JobAsOf(NamedTuple):
    """One job as it stood at a position: what every query over its rows is asked with."""

    stream: str
    site: str
    up_to: int


class Failure(NamedTuple):
    """An event that one view could not apply: it is quarantined for that view, and the others go on."""

    view: str
    reason: str


ATTEMPTS = 2
"""A fold is pure, so a second try helps only against a passing cause. After it, only a rebuild tries again."""


def guarded(view: str, fold: Callable[[], T], failures: list[Failure]) -> T | None:
    """What `fold` gives; None, with the failure noted, for an event that this view cannot apply.

    Catches every Exception on purpose: an event that one view cannot digest must not stop all the others (F18).
    """
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            return fold()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:1000]
    failures.append(Failure(view, reason))
    return None
