"""Who may come to the doors at all, before any routing: the Host asked for, and the Origin of a page that changes.

A page anywhere can make a browser send requests to 127.0.0.1. The Host check stops names that were rebound to this
address; the Origin check stops pages of other sites from changing anything. Neither replaces keys.
"""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from service.errors import HostNotAllowed, OriginNotAllowed, RetraceError, SetupError
from service.http.problems import PROBLEM_JSON, problem_of
from service.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Doorkeeper:
    """Decides by the settings. Pure: `check` raises or does not."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = _LOOPBACK | {settings.host.lower()} | set(_listed(settings.allowed_hosts))
        self._origins = frozenset(_listed(settings.allowed_origins))

    @property
    def origins(self) -> list[str]:
        """Origins of other sites that may read and send."""
        return sorted(self._origins)

    def check(self, method: str, host: str, origin: str | None) -> None:
        """Raises HostNotAllowed or OriginNotAllowed."""
        name = _host_name(host)
        if name not in self._hosts:
            raise HostNotAllowed(
                f"Host: {host[:80]!r} is none of this service's; set RETRACE_ALLOWED_HOSTS to let it in",
                setting="allowed_hosts",
            )  # fmt: skip
        if origin is None or method in READING or origin.lower() in self._origins:
            return
        if urlsplit(origin).netloc.lower() != host.lower():
            raise OriginNotAllowed(
                f"Origin: pages of {origin[:80]!r} may not send here; set RETRACE_ALLOWED_ORIGINS to let them",
                setting="allowed_origins",
            )  # fmt: skip

    def guard(self, app: Asgi) -> Asgi:
        """The app behind this doorkeeper; a refusal is answered before any route is looked for."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
                try:
                    self.check(scope["method"], headers.get(b"host", ""), headers.get(b"origin"))
                except RetraceError as error:
                    await _answer(error, send)
                    return
            await app(scope, receive, send)

        return guarded


def check_bind(settings: Settings) -> None:
    """Raises SetupError for an address that others can reach: there are no keys yet that would tell who may."""
    if not _is_loopback(settings.host):
        raise SetupError(
            f"host: got {settings.host!r}, wanted 127.0.0.1, ::1 or localhost: without API keys everybody who reaches "
            "the address could read and write the record; put a reverse proxy with authentication in front"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """The name without port; empty when it is no host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _listed(text: str | None) -> list[str]:
    return [part.strip().lower() for part in (text or "").split(",") if part.strip()]


async def _answer(error: RetraceError, send: Send) -> None:
    problem = problem_of(error)
    body = msgspec.json.encode(problem)
    headers = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem["status"], "headers": headers})
    await send({"type": "http.response.body", "body": body})
