"""A reader of the public REST surface: what any outsider could ask, over HTTP and nothing else."""

from collections.abc import Iterator
from typing import Any

import httpx

from service.errors import Unavailable

PAGE_ROWS = 1000


class Rest:
    """Asks through a client that knows the address. Answers are decoded JSON; a refusal raises, in its own words."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON answer of a GET."""
        return _checked(self._client.get(path, params=parameters)).json()

    def text(self, path: str) -> str:
        """The text answer of a GET."""
        return _checked(self._client.get(path)).text

    def post(self, path: str, body: Any) -> Any:
        """The JSON answer of a POST of one JSON document."""
        return _checked(self._client.post(path, json=body)).json()

    def rows(self, path: str, name: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Every row of a list, page by page; all pages are of one moment, which the cursor pins."""
        cursor: dict[str, Any] = {"limit": PAGE_ROWS}
        while True:
            answer = self.get(path, **parameters, **cursor)
            yield from answer[name]
            if answer["next"] is None:
                return
            cursor = {"limit": PAGE_ROWS, "cursor": answer["next"]}


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        asked = f"{response.request.method} {response.request.url}"
        raise Unavailable(f"{asked} was answered {response.status_code}: {response.text[:500]}", retry_after_s=0)
    return response
