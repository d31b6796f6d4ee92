"""The gate: a request's body to checked events, by every rule of docs/events.md, or one error and nothing. Pure.

`data` stays as the bytes received; only where a secret stood, its value is replaced. What the text of an event may be
is in `strict_json`, what its envelope may say is here. Nothing is stored here, and no message repeats a payload.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.domain.envelope import NewEvent, Source
from service.domain.events import SERVICE_TYPES
from service.domain.identifiers import check_id, is_sha256, parse_uuid
from service.domain.times import parse_rfc3339
from service.errors import InvalidField, InvalidJson, TooLarge, UnsupportedContentType
from service.ingest.strict_json import check_nesting, check_text, without_secrets
from service.settings import Settings

JSON = "application/json"
NDJSON = "application/x-ndjson"
_TYPE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_TYPE_LENGTH_MAX = 100
_AT = re.compile(r" - at `\$(.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)

SchemaVersion = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Seq = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class WireSource(msgspec.Struct, forbid_unknown_fields=True):
    """`source` as sent."""

    recorder: str
    seq: Seq
    site: str


class WireEvent(msgspec.Struct, forbid_unknown_fields=True):
    """An event as sent. Every field but the two ids of its context is required."""

    id: str
    type: str
    schema_version: SchemaVersion
    stream: str
    observed_at: str
    source: WireSource
    data: msgspec.Raw
    correlation_id: str | None = None
    causation_id: str | None = None


_decode_event = msgspec.json.Decoder(WireEvent).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def read_events(body: bytes, content_type: str, limits: Settings) -> list[NewEvent]:
    """The checked events of a body: a JSON object, a JSON array, or NDJSON, by `content_type`.

    All or nothing: raises the first refusal, a BadInput whose `details["path"]` is `$.…` for one object and
    `$[3].…` for the fourth event of a batch.
    """
    if len(body) > limits.body_bytes_max:
        raise _too_large("the body", len(body), limits.body_bytes_max, "$", "send it in parts")
    events = [_read_event(text, root, limits) for text, root in _texts(body, content_type, limits)]
    if not events:
        raise InvalidField("$: the body has no event, wanted at least one", path="$")
    return events


def _texts(body: bytes, content_type: str, limits: Settings) -> Iterator[tuple[bytes, str]]:
    """The text of each event, and where it stands."""
    if _media_type(content_type) == NDJSON:
        lines = (line for line in body.split(b"\n") if line.strip())
        for at, line in enumerate(lines):
            yield line, f"$[{at}]"
    elif body.lstrip()[:1] == b"[":
        check_nesting(body, limits.nesting_max + 1, "$")
        try:
            texts = _decode_list(body)
        except msgspec.DecodeError as error:
            raise InvalidJson(f"$: not valid JSON: {error}", path="$") from None
        for at, text in enumerate(texts):
            yield bytes(text), f"$[{at}]"
    else:
        yield body, "$"


def _media_type(content_type: str) -> str:
    """`application/json` or `application/x-ndjson`. Raises UnsupportedContentType for anything else."""
    media_type, *parameters = [part.strip().lower() for part in content_type.split(";")]
    is_utf8 = all(parameter in ("", "charset=utf-8", 'charset="utf-8"') for parameter in parameters)
    if media_type not in (JSON, NDJSON) or not is_utf8:
        raise UnsupportedContentType(
            f"Content-Type: got {content_type[:80]!r}, wanted {JSON} or {NDJSON}, in UTF-8",
            allowed=[JSON, NDJSON],
        )  # fmt: skip
    return media_type


def _read_event(text: bytes, root: str, limits: Settings) -> NewEvent:
    if len(text) > limits.event_bytes_max:
        raise _too_large(f"{root}: the event", len(text), limits.event_bytes_max, root, "report less in one event")
    check_text(text, limits, root)
    try:
        wire = _decode_event(text)
    except msgspec.ValidationError as error:
        raise _invalid_field(str(error), root) from None
    data = bytes(wire.data)
    if data[:1] != b"{":
        raise InvalidField(f"{root}.data: wanted a JSON object", path=f"{root}.data")
    _check_type(wire.type, f"{root}.type")
    _check_stream(wire.stream, f"{root}.stream")
    _check_uuid(wire.id, f"{root}.id")
    _check_uuid(wire.source.recorder, f"{root}.source.recorder")
    return NewEvent(
        id=wire.id,
        type=wire.type,
        schema_version=wire.schema_version,
        stream=wire.stream,
        observed_at_us=parse_rfc3339(wire.observed_at, f"{root}.observed_at"),
        source=Source(wire.source.recorder, wire.source.seq, check_id(wire.source.site, f"{root}.source.site")),
        data=without_secrets(data),
        correlation_id=_optional_id(wire.correlation_id, f"{root}.correlation_id"),
        causation_id=_optional_id(wire.causation_id, f"{root}.causation_id"),
    )


def _check_type(name: str, path: str) -> None:
    if len(name) > _TYPE_LENGTH_MAX or _TYPE.fullmatch(name) is None:
        raise InvalidField(
            f"{path}: wanted words of a-z, 0-9 and - joined by dots, such as state.reported, at most "
            f"{_TYPE_LENGTH_MAX} characters", path=path,
        )  # fmt: skip
    if name in SERVICE_TYPES:
        raise InvalidField(f"{path}: {name} is made by the service alone and cannot be sent", path=path)


def _check_stream(stream: str, path: str) -> None:
    kind, _, name = stream.partition("-")
    if kind == "job":
        check_id(name, path)
    elif kind == "recorder":
        parse_uuid(name, path)
    elif kind != "artifact" or not is_sha256(name):
        raise InvalidField(f"{path}: wanted job-<id>, recorder-<uuid> or artifact-<sha256>", path=path)


def _check_uuid(text: str, path: str) -> None:
    if _UUID.fullmatch(text) is None:
        parse_uuid(text, path)


def _optional_id(value: str | None, path: str) -> str | None:
    return None if value is None else check_id(value, path)


def _invalid_field(message: str, root: str) -> InvalidField:
    """msgspec's words with our path: the field that is unknown, missing or of the wrong type."""
    at = _AT.search(message)
    where = root + (at.group(1) if at else "")
    reason = message[: at.start()] if at else message
    unknown = _UNKNOWN.fullmatch(reason)
    if unknown:
        where = f"{where}.{unknown.group(1)[:64]}"
        return InvalidField(f"{where}: an event has no such field; what a page says belongs in data", path=where)
    return InvalidField(f"{where}: {reason}", path=where)


def _too_large(what: str, got: int, limit: int, path: str, advice: str) -> TooLarge:
    details: dict[str, Any] = {"limit": limit, "got": got, "unit": "bytes", "path": path}
    return TooLarge(f"{what} has {got} bytes, wanted at most {limit}; {advice}", **details)
