"""Doors for bytes: `PUT|GET|HEAD /v1/artifacts/{sha256}` and `POST /v1/jobs/{job}/artifacts`.

Bytes stream through in both directions with bounded memory. An artifact is addressed by its digest and nothing else;
no text of a request ever becomes a path.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from litestar import HttpMethod, Request, Response, post, put, route
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import FromPath, FromQuery
from litestar.response import Stream

from service.artifacts.archive import Kept, Upload
from service.domain.identifiers import check_sha256
from service.errors import ArtifactNotFound, DigestMismatch, TooLarge, UploadAborted
from service.ingest.archiving import Archiving, Label, read_label
from service.ingest.byte_ranges import read_range
from service.ingest.routes import receipts_response
from service.store import EventStore

WRITE_BYTES = 1024 * 1024
"""Chunks are gathered up to this size before a thread writes them."""

Asked = Request[Any, Any, Any]


@put("/v1/artifacts/{sha256:str}", request_max_body_size=None, tags=["artifacts"])
async def put_artifact(
    *, request: Asked, sha256: FromPath[str], role: FromQuery[str], archiving: NamedDependency[Archiving],
    store: NamedDependency[EventStore], job: FromQuery[str | None] = None, round: FromQuery[int | None] = None,  # noqa: A002
) -> Response[bytes]:  # fmt: skip
    """Keep bytes under the digest that they must have. 201 when something is new, 200 when all was known."""
    check_sha256(sha256)
    label = read_label(role, job, round)
    try:
        kept = await _receive(request, archiving, sha256)
    except (DigestMismatch, TooLarge, UploadAborted) as refusal:
        await asyncio.to_thread(archiving.record_refusal, sha256, label, refusal)
        raise
    return await _record(archiving, store, kept, label)


@post("/v1/jobs/{job:str}/artifacts", request_max_body_size=None, tags=["artifacts"])
async def post_artifact(
    *, request: Asked, job: FromPath[str], role: FromQuery[str], archiving: NamedDependency[Archiving],
    store: NamedDependency[EventStore], round: FromQuery[int | None] = None,  # noqa: A002
) -> Response[bytes]:  # fmt: skip
    """Keep a job's bytes under the digest that they turn out to have."""
    label = read_label(role, job, round)
    return await _record(archiving, store, await _receive(request, archiving, None), label)


async def _record(archiving: Archiving, store: EventStore, kept: Kept, label: Label) -> Response[bytes]:
    receipt = await asyncio.to_thread(archiving.record, kept, label)
    more = {"sha256": kept.sha256, "size_bytes": kept.size_bytes, "role": label.role, "is_new": kept.is_new}
    return receipts_response([receipt], more, store.head())


async def _receive(request: Asked, archiving: Archiving, sha256: str | None) -> Kept:
    """Stream the body into the archive. Leaving by any error keeps nothing."""
    with archiving.archive.writer(sha256) as upload:
        try:
            await _write_all(request, upload)
        except HTTPException as error:
            # The framework's word for a sender that hung up. Nobody reads the answer, but the record says it.
            raise UploadAborted("the sender went away before its upload was complete; nothing was kept") from error
        return await asyncio.to_thread(upload.commit)


async def _write_all(request: Asked, upload: Upload) -> None:
    gathered = bytearray()
    async for chunk in request.stream():
        gathered += chunk
        if len(gathered) >= WRITE_BYTES:
            await asyncio.to_thread(upload.write, bytes(gathered))
            gathered.clear()
    await asyncio.to_thread(upload.write, bytes(gathered))


@route("/v1/artifacts/{sha256:str}", http_method=[HttpMethod.GET, HttpMethod.HEAD], tags=["artifacts"])
async def get_artifact(
    request: Asked, sha256: FromPath[str], archiving: NamedDependency[Archiving]
) -> Response[bytes] | Stream:  # fmt: skip
    """The bytes, whole or a range of them. They never change, so their digest is the ETag."""
    archive = archiving.archive
    size_bytes = await asyncio.to_thread(archive.head, check_sha256(sha256))
    if size_bytes is None:
        raise ArtifactNotFound(f"no artifact is kept under {sha256}", sha256=sha256)
    tag = f'"{sha256}"'
    headers = {
        "etag": tag, "accept-ranges": "bytes", "cache-control": "private, max-age=31536000, immutable",
        "x-content-type-options": "nosniff", "content-disposition": "attachment",
    }  # fmt: skip
    if tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    if request.method == HttpMethod.HEAD:
        headers["content-length"] = str(size_bytes)
        return Response(b"", headers=headers, media_type="application/octet-stream")
    wanted = read_range(request.headers.get("range"), size_bytes)
    start, end = wanted or (0, size_bytes)
    if wanted is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size_bytes}"
    headers["content-length"] = str(end - start)
    return Stream(
        _hold_back_last(archive.open_read(sha256, start, end)),
        status_code=200 if wanted is None else 206, headers=headers, media_type="application/octet-stream",
    )  # fmt: skip


def _hold_back_last(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks, the last one only once the digest of all was checked: damaged bytes never arrive complete."""
    held = b""
    for chunk in chunks:
        if held:
            yield held
        held = chunk
    yield held


artifact_handlers = [put_artifact, post_artifact, get_artifact]
