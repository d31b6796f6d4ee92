"""An event on its way in (NewEvent), as kept (StoredEvent), the receipt for it, and its leaf bytes.

The envelope is small and never erased; `data` is the payload, kept as the bytes received. The leaf commits to the
payload by digest, so an erased payload leaves every proof intact. These values hold no cycles and come by the
million, so the garbage collector is told to pass them by (`gc=False`).
"""

import hashlib
from typing import Any

import msgspec

from service.domain.canonical import canonical_json
from service.domain.times import format_us


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Who says so: a recorder run (uuid), its sequence number (from 1, without a hole) and the site of the page."""

    recorder: str
    seq: int
    site: str


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """A checked event that has no position yet. `data` is the JSON text received, byte for byte.

    `observed_at_us` is the page's claim (µs UTC). `salt` (16 bytes) is given when the payload is personal.
    """

    id: str
    type: str
    schema_version: int
    stream: str
    observed_at_us: int
    source: Source
    data: bytes
    correlation_id: str | None = None
    causation_id: str | None = None
    salt: bytes | None = None


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in the store.

    `is_erased`: the payload was taken out, `data` is empty. `is_redacted`: `data` is the document that took its place,
    so it has neither `data_size` nor `data_sha256`; its own digest is in the `payload.erased` event.
    """

    position: int
    stream_position: int
    recorded_at_us: int
    data_sha256: str
    data_size: int
    event: NewEvent
    is_erased: bool = False
    is_redacted: bool = False

    @property
    def data(self) -> bytes:
        """The payload as received; empty bytes when erased."""
        return self.event.data


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What the sender of an event gets: where it stands. Equal for every redelivery of the same event."""

    id: str
    position: int
    stream_position: int
    recorded_at_us: int
    data_sha256: str
    is_redelivery: bool = False


def data_digest(data: bytes, salt: bytes | None) -> str:
    """SHA-256(salt ‖ data) when salted, else SHA-256(data); hex. DESIGN §13, leaf bytes."""
    return hashlib.sha256((salt or b"") + data).hexdigest()


def leaf_bytes(stored: StoredEvent) -> bytes:
    """The canonical envelope that the transparency log commits to (DESIGN §13). Leaf index = position - 1."""
    return canonical_json(envelope_dict(stored))


def envelope_dict(stored: StoredEvent) -> dict[str, Any]:
    """The envelope's fields as a JSON object: exactly what the leaf holds, times as RFC 3339 UTC with µs."""
    event = stored.event
    return {
        "causation_id": event.causation_id,
        "correlation_id": event.correlation_id,
        "data_sha256": stored.data_sha256,
        "data_size": stored.data_size,
        "id": event.id,
        "observed_at": format_us(event.observed_at_us),
        "position": stored.position,
        "recorded_at": format_us(stored.recorded_at_us),
        "salted": event.salt is not None,
        "schema_version": event.schema_version,
        "source": {"recorder": event.source.recorder, "seq": event.source.seq, "site": event.source.site},
        "stream": event.stream,
        "stream_position": stored.stream_position,
        "type": event.type,
    }
