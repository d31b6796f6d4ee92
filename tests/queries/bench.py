"""The query routes over a real store and real views, asked through Litestar's client; the clock is the test's."""

import os
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, Response
from litestar.di import Provide
from litestar.testing import TestClient

from service.domain.envelope import NewEvent, Source
from service.errors import AmbiguousJob, NotFound, RetraceError
from service.ingest.translate import ServiceRun
from service.projections import Views
from service.projections.rebuilder import Rebuilder
from service.projections.runner import catch_up
from service.queries.parameters import refuse_unknown_parameters
from service.queries.rebuild_routes import rebuild_handlers
from service.queries.routes import query_router
from service.settings import Settings
from service.store import EventStore

START_US = 1_796_000_000_000_000
S = 1_000_000


class Bench:
    """A service with one hand on its clock: record, move time, ask."""

    def __init__(self, folder: Path) -> None:
        self.now_us = START_US
        settings = Settings(data=str(folder))
        self.store = EventStore.open(settings, self.clock)
        self.views = Views.open(settings, self.clock)
        self.rebuilder = Rebuilder(self.views, self.store, settings, self.clock)
        dependencies = {
            "rebuilder": self.rebuilder,
            "store": self.store,
            "views": self.views,
            "clock": self.clock,
            "run": ServiceRun(self.clock, os.urandom),
        }
        self.client = TestClient(
            Litestar(
                [query_router, *rebuild_handlers],
                dependencies={name: given(value) for name, value in dependencies.items()},
                exception_handlers={RetraceError: problem},
                guards=[refuse_unknown_parameters],
            )
        )
        self.client.__enter__()
        self._seqs: dict[str, int] = {}
        self._ids = 0

    def clock(self) -> int:
        return self.now_us

    def record(self, kind: str, data: Any, *, recorder: str = "00000000-0000-7000-8000-0000000000aa",
               stream: str = "job-j1", site: str = "https://lab.example", seq: int | None = None,
               observed_us: int | None = None, causation_id: str | None = None) -> int:  # fmt: skip
        """Store one event now and fold it; its position."""
        self._ids += 1
        self._seqs[recorder] = seq if seq is not None else self._seqs.get(recorder, 0) + 1
        body = data if isinstance(data, bytes) else msgspec.json.encode(data)
        event = NewEvent(
            f"00000000-0000-7000-8000-{self._ids:012d}", kind, 1, stream,
            self.now_us if observed_us is None else observed_us, Source(recorder, self._seqs[recorder], site), body,
            causation_id=causation_id,
        )  # fmt: skip
        [receipt] = self.store.append([event]).result(timeout=30)
        catch_up(self.views, self.store)
        return receipt.position

    def get(self, path: str, expect: int = 200, **parameters: Any) -> Any:
        response = self.client.get(path, params=parameters)
        assert response.status_code == expect, response.text
        return response.json()

    def close(self) -> None:
        self.client.__exit__()
        self.views.close()
        self.store.close()


def given(value: Any) -> Provide:
    """A dependency that is there already."""
    return Provide(lambda: value, sync_to_thread=False)


def problem(_: object, error: RetraceError) -> Response[dict[str, Any]]:
    """The app's mapping of errors is tested with the app; here only enough to see the code."""
    status = 404 if isinstance(error, NotFound) else 409 if isinstance(error, AmbiguousJob) else 422
    return Response({"code": error.code, "detail": error.message, **error.details}, status_code=status)
