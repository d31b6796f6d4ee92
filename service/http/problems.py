"""Every refusal and failure as `application/problem+json` (RFC 9457): the five fixed fields, then the details.

One branch of the error tree is one status. A message never repeats a payload, and no traceback leaves the process.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from service import errors
from service.settings import Settings

PROBLEM_JSON = "application/problem+json"
_TYPE = "https://retrace.invalid/problems/"
_log = logging.getLogger(__name__)

STATUSES: tuple[tuple[type[errors.RetraceError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.UnsupportedContentType, 415),
    (errors.RangeNotSatisfiable, 416),
    (errors.OriginNotAllowed, 403),
    (errors.UnknownParameter, 422),
    (errors.InvalidDigest, 422),
    (errors.BadInput, 400),
    (errors.Unprocessable, 422),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Unavailable, 503),
)
"""Status by branch, the narrower first; what is in no branch is 500."""

_CODES = {404: "not_found", 405: "method_not_allowed", 415: "unsupported_content_type"}
"""Codes of what the HTTP framework itself refuses."""


def status_of(error: errors.RetraceError) -> int:
    """The HTTP status for an error of the tree."""
    return next((status for branch, status in STATUSES if isinstance(error, branch)), 500)


def problem_of(error: errors.RetraceError) -> dict[str, Any]:
    """The body for an error of the tree."""
    return _problem(status_of(error), error.code, error.message, error.details)


def headers_of(error: errors.RetraceError) -> dict[str, str]:
    """Headers that a program needs to react: when to come again, what there is to ask for."""
    if isinstance(error, errors.Unavailable):
        return {"retry-after": str(max(1, round(error.details.get("retry_after_s", 1))))}
    if isinstance(error, errors.RangeNotSatisfiable):
        return {"content-range": f"bytes */{error.details['size_bytes']}"}
    return {}


def problem_handlers(settings: Settings) -> ExceptionHandlersMap:
    """Handlers for the app: nothing leaves it in any other form."""

    def refused_by_framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
        if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            limit = settings.body_bytes_max
            too_large = errors.TooLarge(
                f"the body has more than {limit} bytes; send it in parts", limit=limit, unit="bytes", path="$"
            )
            return refused(request, too_large)
        if isinstance(error, ValidationException):
            return refused(request, _parameter_error(error))
        if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return failed(request, error)
        status = HTTPStatus(error.status_code)
        code = _CODES.get(status, "bad_input")
        detail = f"{request.method} {request.url.path[:200]}: {status.phrase.lower()}; see docs/rest-api.md"
        return _answer(_problem(status, code, detail, {}), dict(error.headers or {}))

    return {errors.RetraceError: refused, HTTPException: refused_by_framework, Exception: failed}


def refused(_: Request[Any, Any, Any], error: errors.RetraceError) -> Response[bytes]:
    """An error of the tree."""
    if status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("a request failed: %s", error.message, exc_info=error)
    return _answer(problem_of(error), headers_of(error))


def failed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Anything that was not foreseen: logged with its traceback, answered without."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    detail = "the service failed at this request and has logged why; nothing was stored unless a receipt says so"
    return _answer(_problem(500, errors.RetraceError.code, detail, {}), {})


def _parameter_error(error: ValidationException) -> errors.UnknownParameter:
    """What the framework says about a parameter; it names the parameter and the wanted type, never the value."""
    found = error.extra if isinstance(error.extra, list) else []
    first = found[0] if found and isinstance(found[0], Mapping) else {}
    name = str(first.get("key", ""))[:80]
    said = str(first.get("message", "a parameter does not fit"))[:200]
    return errors.UnknownParameter(f"{name}: {said}" if name else said, parameter=name or None)


def _problem(status: int, code: str, detail: str, details: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {"type": _TYPE + code, "title": HTTPStatus(status).phrase, "status": status, "detail": detail, "code": code}
    return {**details, **fixed}


def _answer(problem: dict[str, Any], headers: dict[str, str]) -> Response[bytes]:
    body = msgspec.json.encode(problem, enc_hook=str)
    sent = {"cache-control": "no-store", "x-content-type-options": "nosniff", **headers}
    return Response(body, status_code=problem["status"], media_type=PROBLEM_JSON, headers=sent)
