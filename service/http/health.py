"""`GET /health` and `GET /ready`: how the process is doing, and whether its views can be asked."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency

from service.domain.times import Clock
from service.errors import Unavailable
from service.projections import Views
from service.projections.standing import standing
from service.store import EventStore


class Health:
    """What the doors may say about the process. `loops` are the live health records of the background loops."""

    def __init__(self, store: EventStore, views: Views, loops: Sequence[Any], clock: Clock) -> None:
        self._store = store
        self._views = views
        self._clock = clock
        self._loops = loops
        self._head_at_start = store.head()

    def report(self) -> dict[str, Any]:
        """Where store and views stand and how each loop does."""
        return {
            "head": self._store.head(),
            "views_position": self._views.position(),
            "is_ready": self.is_ready,
            "views": standing(self._views, self._store, self._clock()),
            "loops": list(self._loops),
        }

    @property
    def is_ready(self) -> bool:
        """Whether the views have caught up with what was stored when the process started."""
        return self._views.position() >= self._head_at_start


@get("/health", tags=["operation"], sync_to_thread=True)
def show_health(health: NamedDependency[Health]) -> Response[bytes]:
    """503 when the views stand still although events wait, else 200; a failing loop shows its last error."""
    report = health.report()
    return _answer(report, 200 if report["views"]["is_well"] else 503)


@get("/ready", tags=["operation"], sync_to_thread=True)
def show_ready(health: NamedDependency[Health]) -> Response[bytes]:
    """200 once views answer for everything that was stored before the start, 503 until then."""
    if not health.is_ready:
        raise Unavailable("the views are still being folded; ask again in 1 s", retry_after_s=1)
    return _answer({"is_ready": True})


def _answer(body: dict[str, Any], status_code: int = 200) -> Response[bytes]:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(body), status_code=status_code, media_type="application/json", headers=headers)


health_handlers = [show_health, show_ready]
