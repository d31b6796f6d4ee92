"""What an address may be asked with: unknown query parameters are refused, and cursors say where a list goes on.

A cursor pins the position as of which its list is read, so that pages join without hole or repeat whatever is recorded
meanwhile; it never counts rows.
"""

import base64
import binascii
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from service.errors import UnknownParameter

Limit = Annotated[int, QueryParameter(ge=1, le=1000)]
"""Rows of one page."""
ANY_PARAMETER = "any_parameter"
"""Option of a handler that checks its query parameters itself."""
_RESERVED = frozenset({"request", "body", "data", "headers", "query", "scope", "socket", "state", "cookies"})


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on: rows after `after`, as of `up_to` and `moment_us`."""

    up_to: int
    moment_us: int
    after: int


def write_cursor(cursor: Cursor) -> str:
    """The cursor as an opaque word."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def read_cursor(text: str) -> Cursor:
    """The cursor behind the word. Raises UnknownParameter for one that was not made here."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Cursor)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise UnknownParameter(
            f"cursor: got {text[:80]!r}, wanted a `next` that an answer gave", parameter="cursor"
        ) from None  # fmt: skip


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """The value itself. Raises UnknownParameter, listing what is allowed."""
    if value not in allowed:
        raise UnknownParameter(
            f"{name}: got {value[:80]!r}, wanted one of {', '.join(allowed)}", parameter=name, allowed=list(allowed)
        )
    return value


def refuse_unknown_parameters(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Guard: a query parameter that the address does not have is refused; passed by, a typo would filter nothing."""
    if handler.opt.get(ANY_PARAMETER):
        return
    allowed = _parameters_of(handler)
    for name in connection.query_params:
        if name not in allowed:
            raise UnknownParameter(
                f"got the query parameter {name[:80]!r}; {connection.scope['path']} has {', '.join(sorted(allowed))}",
                parameter=name[:80], allowed=sorted(allowed),
            )  # fmt: skip


@lru_cache(maxsize=512)
def _parameters_of(handler: BaseRouteHandler) -> frozenset[str]:
    """Names of the query parameters that a handler and its dependencies declare."""
    providers = handler.resolve_dependencies()
    wanted = list(handler.parsed_fn_signature.parameters)
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in providers:
            wanted += list(providers[name].parsed_fn_signature.parameters)
        else:
            found.add(name)
    in_path = {
        part.split(":")[0].strip("{}") for path in handler.paths for part in path.split("/") if part.startswith("{")
    }
    return frozenset(found - _RESERVED - in_path)
