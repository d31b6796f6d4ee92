"""A network that a test can cut: before the service hears a request, or before its answer returns."""

import httpx
from litestar import Litestar
from litestar.testing import TestClient


class Wire(httpx.BaseTransport):
    """Hands requests to the service. `troubles` are met first, one per request, each once."""

    def __init__(self, client: TestClient[Litestar]) -> None:
        self._client = client
        self.troubles: list[str] = []
        self.bodies: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        trouble = self.troubles.pop(0) if self.troubles else ""
        body = request.read()
        self.bodies.append(body)
        if trouble == "not heard":
            raise httpx.ConnectError("refused")
        if trouble == "overloaded":
            return httpx.Response(503, headers={"retry-after": "0"}, json={"code": "store_overloaded"})
        headers = {"content-type": request.headers["content-type"]}
        answer = self._client.request(request.method, str(request.url), content=body, headers=headers)
        if trouble == "not answered":
            raise httpx.ReadError("cut")
        return httpx.Response(answer.status_code, content=answer.content, headers={"content-type": "application/json"})
