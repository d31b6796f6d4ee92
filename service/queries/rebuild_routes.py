"""Folding the views anew while they are served: begin a rebuild, and see how far it is.

Both are coroutines as neither blocks; and Litestar 2.25 wraps the first of two threaded handlers of one path twice.
"""

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency

from service.projections.rebuilder import Rebuilder, RebuildReport
from service.queries.responses import ANSWERS, Asked, answer


@post("/v1/rebuilds", status_code=202, responses={202: ANSWERS[200]}, tags=["operation"])
async def start_rebuild(request: Asked, rebuilder: NamedDependency[Rebuilder]) -> Response[bytes]:
    """Begin to fold every event anew beside the live views, or join the rebuild that runs. Readers are answered."""
    return _answer(request, rebuilder.start(), 202)


@get("/v1/rebuilds", responses={200: ANSWERS[200]}, tags=["operation"])
async def show_rebuild(request: Asked, rebuilder: NamedDependency[Rebuilder]) -> Response[bytes]:
    """How the newest rebuild stands: none, running, done or failed, and up to which position."""
    return _answer(request, rebuilder.report, 200)


def _answer(request: Asked, report: RebuildReport, status_code: int) -> Response[bytes]:
    return answer(request, msgspec.to_builtins(report), status_code=status_code)


rebuild_handlers = [start_rebuild, show_rebuild]
