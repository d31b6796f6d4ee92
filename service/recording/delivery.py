"""Sending over HTTP until it is answered for good: what is tried again, after which pause, and what is given up.

Tried again with the same bytes: no answer at all, 408, 425, 429 and every 5xx. Given up: any other answer that is no
success, as the same bytes would be refused again.
"""

from collections.abc import Callable
from typing import Any

import httpx

from service.domain.identifiers import RandomBytes
from service.errors import RecordingRefused

PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 10.0
_AGAIN = frozenset({408, 425, 429})


class Delivery:
    """One connection to a service. `pause(seconds)` waits and gives False when there is no more time to try."""

    def __init__(self, url: str, random_bytes: RandomBytes, transport: httpx.BaseTransport | None) -> None:
        self._http = httpx.Client(base_url=url, transport=transport, timeout=30)
        self._random_bytes = random_bytes

    def send(
        self, method: str, path: str, content: bytes, *, content_type: str, pause: Callable[[float], bool],
        parameters: dict[str, Any] | None = None,
    ) -> dict[str, Any] | None:  # fmt: skip
        """The answer's body; None when `pause` ended the trying. Raises RecordingRefused."""
        tries = 0
        while True:
            retry_after_s = 0.0
            try:
                response = self._http.request(
                    method, path, content=content, params=parameters, headers={"content-type": content_type}
                )
            except httpx.TransportError:
                pass  # no answer: it may or may not be stored, the same ids make trying again safe
            else:
                if response.is_success:
                    body: dict[str, Any] = response.json()
                    return body
                if response.status_code not in _AGAIN and response.status_code < 500:
                    raise refusal_of(response)
                retry_after_s = _retry_after_s(response)
            if not pause(max(retry_after_s, self._pause_s(tries))):
                return None
            tries += 1

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _pause_s(self, tries: int) -> float:
        """Doubles, with up to half of it taken off at random, so that recorders do not come back in step."""
        full: float = min(PAUSE_MIN_S * 2 ** min(tries, 16), PAUSE_MAX_S)
        return full * (1 - self._random_bytes(1)[0] / 512)


def refusal_of(response: httpx.Response) -> RecordingRefused:
    """The service's problem as an error."""
    try:
        problem: Any = response.json()
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    detail = problem.get("detail", f"{response.request.method} was answered with {response.status_code}")
    return RecordingRefused(
        f"the service refuses what was recorded: {detail}", status=response.status_code, problem=problem
    )


def _retry_after_s(response: httpx.Response) -> float:
    text: str = response.headers.get("retry-after", "")
    return float(min(int(text), 60)) if text.isascii() and text.isdigit() else 0.0
