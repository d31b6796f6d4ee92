"""How answers leave: one encoder for every body, with ETag, NDJSON for lists by `Accept`, and no sniffing.

Non-finite numbers leave as tags, never as null. Ids are strings already; integers keep all their digits.
"""

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec

from service.domain.facts import Fact, tag_number
from service.domain.times import format_us
from service.queries.history import Looking, Moment

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
NDJSON = "application/x-ndjson"


class Problem(msgspec.Struct):
    """The body of every refusal (RFC 9457); more fields say what was got and what is wanted."""

    type: str
    title: str
    status: int
    detail: str
    code: str


def _problem(description: str) -> ResponseSpec:
    return ResponseSpec(Problem, description=description, media_type=PROBLEM_JSON, generate_examples=False)


ANSWERS: dict[int, ResponseSpec] = {
    200: ResponseSpec(dict[str, Any], description="The answer", media_type=JSON, generate_examples=False),
    304: ResponseSpec(None, description="Unchanged since `If-None-Match`", generate_examples=False),
    404: _problem("What was named is not in the record"),
    409: _problem("Two sites have this job: `site` decides"),
    422: _problem("A parameter that is unknown or out of its range, or a question without an answer"),
    503: _problem("The views did not reach `wait_for` in time"),
}
"""What a GET of a view may answer, for the machine-readable description."""

_encode = msgspec.json.Encoder().encode
Asked = Request[Any, Any, Any]
Looked = NamedDependency[Looking]


def encode(value: Any) -> bytes:
    """JSON bytes of an answer."""
    return _encode(tagged(value))


def tagged(value: Any) -> Any:
    """The value with every non-finite float as its tag."""
    if isinstance(value, float):
        return value if math.isfinite(value) else tag_number(value)
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [tagged(item) for item in value]
    if isinstance(value, Fact):
        return Fact(tagged(value.value), value.reason, value.position)
    return value


def answer(
    request: Asked, body: dict[str, Any], moment: Moment | None = None, status_code: int = 200
) -> Response[bytes]:
    """One JSON object, with the moment that it is about; 304 when the asker has it already."""
    if moment is not None:
        body = {**body, "as_of": format_us(moment.moment_us), "as_of_position": moment.position}
    return _sent(request, encode(body), JSON, status_code)


def answer_list(
    request: Asked, name: str, rows: Iterable[dict[str, Any]], moment: Moment, next_cursor: str | None = None,
    **beside: Any,
) -> Response[bytes]:  # fmt: skip
    """A list under `name`, or one row per line when the asker accepts NDJSON. `next` is the cursor of what follows.

    What stands `beside` the list goes into the JSON object only.
    """
    if NDJSON not in request.headers.get("accept", ""):
        return answer(request, {name: list(rows), "next": next_cursor, **beside}, moment)
    lines = b"".join(encode(row) + b"\n" for row in rows)
    headers = {"retrace-as-of-position": str(moment.position)}
    if next_cursor is not None:
        headers["retrace-next"] = next_cursor
    return _sent(request, lines, NDJSON, 200, headers)


def _sent(
    request: Asked, body: bytes, media_type: str, status_code: int, headers: dict[str, str] | None = None
) -> Response[bytes]:  # fmt: skip
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    sent = {"etag": tag, "x-content-type-options": "nosniff", "vary": "accept", **(headers or {})}
    if status_code == 200 and tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=sent, media_type=media_type)
    return Response(body, status_code=status_code, headers=sent, media_type=media_type)
