"""`GET /health` and `GET /ready`: how the process is doing, and whether its views can be asked."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency

from service.errors import Unavailable
from service.projections import Views
from service.store import EventStore


class Health:
    """What the doors may say about the process. `loops` are the live health records of the background loops."""

    def __init__(self, store: EventStore, views: Views, loops: Sequence[Any]) -> None:
        self._store = store
        self._views = views
        self._loops = loops
        self._head_at_start = store.head()

    def report(self) -> dict[str, Any]:
        """Where store and views stand and how each loop does."""
        return {
            "head": self._store.head(),
            "views_position": self._views.position(),
            "is_ready": self.is_ready,
            "loops": list(self._loops),
        }

    @property
    def is_ready(self) -> bool:
        """Whether the views have caught up with what was stored when the process started."""
        return self._views.position() >= self._head_at_start


@get("/health", tags=["operation"], sync_to_thread=True)
def show_health(health: NamedDependency[Health]) -> Response[bytes]:
    """Always 200 while the process lives; a failing loop shows its last error."""
    return _answer(health.report())


@get("/ready", tags=["operation"], sync_to_thread=True)
def show_ready(health: NamedDependency[Health]) -> Response[bytes]:
    """200 once views answer for everything that was stored before the start, 503 until then."""
    if not health.is_ready:
        raise Unavailable("the views are still being folded; ask again in 1 s", retry_after_s=1)
    return _answer({"is_ready": True})


def _answer(body: dict[str, Any]) -> Response[bytes]:
    return Response(msgspec.json.encode(body), media_type="application/json", headers={"cache-control": "no-store"})


health_handlers = [show_health, show_ready]
