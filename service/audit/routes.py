"""The log's doors: C2SP tlog-tiles under `/log/`, evidence for one event, consistency between two sizes.

Tiles never change once they are full, so they may be kept for good; a partial tile's address names its width.
"""

from base64 import b64encode
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from service.audit.entries import parse_tile_path
from service.audit.log import TransparencyLog
from service.audit.tlog_proof import write_proof
from service.errors import EventNotFound, NotFound

TEXT = "text/plain; charset=utf-8"
_FOR_GOOD = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
_FOR_SECONDS = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}


@get("/log/checkpoint", sync_to_thread=True)
def get_signed_head(log: NamedDependency[TransparencyLog]) -> Response[str]:
    """A signed head of everything recorded up to now. Keep it: only an older head shows that nothing was rewritten."""
    return Response(log.signed_head(), media_type=TEXT, headers=_FOR_SECONDS)


@get("/log/tile/{rest:path}", sync_to_thread=True)
def get_tile(request: Request[Any, Any, Any], log: NamedDependency[TransparencyLog]) -> Response[bytes]:
    """A tile of hashes (`tile/L/N[.p/W]`) or a bundle of leaves (`tile/entries/N[.p/W]`)."""
    level, tile_index, width = parse_tile_path("tile" + request.path_params["rest"])
    found = log.entries(tile_index, width) if level is None else log.tile(level, tile_index, width)
    return Response(found, media_type="application/octet-stream", headers=_FOR_GOOD)


@get("/v1/proofs/{position:int}", sync_to_thread=True)
def get_proof(position: FromPath[int], log: NamedDependency[TransparencyLog]) -> Response[str]:
    """The evidence that the event at a position is in the log: a C2SP tlog-proof file up to the newest head."""
    note = log.signed_head()
    size = log.signed_size(note)
    if not 1 <= position <= size:
        raise EventNotFound(f"there is no event at position {position}; the log has {size}", position=position)
    hashes = log.inclusion_proof(position - 1, size)
    return Response(write_proof(position - 1, hashes, note), media_type=TEXT, headers=_FOR_SECONDS)


@get("/v1/consistency", sync_to_thread=True)
def get_consistency(
    log: NamedDependency[TransparencyLog], old_size: FromQuery[int], size: FromQuery[int | None] = None
) -> dict[str, Any]:
    """The hashes (RFC 6962, base64) that show that the log at `size` extends the log at `old_size`."""
    if old_size < 1:
        raise NotFound("an empty log is part of every log; ask with old_size of 1 or more")
    size = log.head().size if size is None else size
    hashes = log.consistency_proof(old_size, size)
    return {"old_size": old_size, "size": size, "hashes": [b64encode(each).decode() for each in hashes]}


log_handlers = [get_signed_head, get_tile, get_proof, get_consistency]
