"""`POST /v1/events`: bodies through the gate into the store, answered with receipts once they are on disk."""

import asyncio
from concurrent.futures import Future
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, RawBody

from service.domain.envelope import Receipt
from service.domain.times import format_us
from service.ingest.compression import decompress
from service.ingest.payloads import read_events
from service.settings import Settings
from service.store import EventStore

OFF_LOOP_BYTES = 64 * 1024
"""From this size on a body is read in a thread, so that others are answered meanwhile."""

Asked = Request[Any, Any, Any]


@post("/v1/events", tags=["ingest"])
async def post_events(
    request: Asked, body: RawBody, store: NamedDependency[EventStore], settings: NamedDependency[Settings],
    expected_version: FromQuery[int | None] = None,
) -> Response[bytes]:  # fmt: skip
    """Record a batch of events, all or nothing. 201 with a receipt each; 200 when all were recorded before."""
    content_type = request.headers.get("content-type", "")
    content_encoding = request.headers.get("content-encoding", "")

    def through_the_gate() -> "Future[list[Receipt]]":
        plain = decompress(body, content_encoding, settings.body_bytes_max)
        return store.append(read_events(plain, content_type, settings), expected_version)

    is_large = len(body) > OFF_LOOP_BYTES or content_encoding != ""
    appending = await asyncio.to_thread(through_the_gate) if is_large else through_the_gate()
    receipts = await asyncio.wrap_future(appending)
    return receipts_response(receipts, {}, store.head())


def receipts_response(receipts: list[Receipt], more: dict[str, Any], head: int) -> Response[bytes]:
    """The body that every door answers with when it recorded something. `head` is the newest position."""
    rows = [
        {
            "id": receipt.id,
            "position": receipt.position,
            "stream_position": receipt.stream_position,
            "recorded_at": format_us(receipt.recorded_at_us),
            "data_sha256": receipt.data_sha256,
        }
        for receipt in receipts
    ]
    is_known = all(receipt.is_redelivery for receipt in receipts)
    body = msgspec.json.encode({**more, "receipts": rows, "head": head})
    return Response(body, status_code=200 if is_known else 201, media_type="application/json")
