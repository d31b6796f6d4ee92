"""The one place of wiring: settings → store → archive → views → log → loops → routes. Nothing here is a global.

`create_app` opens everything at once, so that a broken set-up fails before a port is bound; the app's life then starts
the loops and, at its end, drains, signs a last tree head and closes what was opened.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import ControllerRouterHandler

from analytics.lake import FOLDER, Lake
from service.artifacts.archive import Archive
from service.audit.log import TransparencyLog
from service.audit.log_key import LogKey
from service.audit.routes import log_handlers
from service.domain.identifiers import RandomBytes
from service.domain.times import Clock, system_clock
from service.http.doorkeeper import Doorkeeper, check_bind
from service.http.health import Health, health_handlers
from service.http.problems import problem_handlers
from service.ingest.archiving import Archiving
from service.ingest.routes import post_events
from service.ingest.routes_artifacts import artifact_handlers
from service.ingest.translate import ServiceRun
from service.loops import Loop, follow, judge_replays, sign_heads
from service.projections import Views
from service.projections.rebuilder import Rebuilder
from service.queries.inference_routes import inference_handlers
from service.queries.live import HeadBroadcast, live
from service.queries.parameters import refuse_unknown_parameters
from service.queries.question_routes import question_handlers
from service.queries.rebuild_routes import rebuild_handlers
from service.queries.routes import query_router
from service.replay import ReplayEngine
from service.replaying import Desk
from service.settings import Settings
from service.store import EventStore

ROUTE_HANDLERS: tuple[ControllerRouterHandler, ...] = (
    post_events, *artifact_handlers, query_router, *question_handlers, *log_handlers, live, *health_handlers,
    *rebuild_handlers, *inference_handlers,
)  # fmt: skip
_DEPENDENCIES = (
    "lake", "store", "views", "clock", "settings", "archiving", "broadcast", "health", "log", "run", "rebuilder",
    "replays",
)  # fmt: skip


class Service:
    """Everything that one service process holds, opened and wired."""

    def __init__(self, settings: Settings, clock: Clock, random_bytes: RandomBytes) -> None:
        """Raises SetupError when the settings, the data folder or its files do not allow a start."""
        check_bind(settings)
        self.settings = settings
        self.clock = clock
        self.store = EventStore.open(settings, clock)
        self.archive = Archive.open(settings)
        self.views = Views.open(settings, clock)
        self.rebuilder = Rebuilder(self.views, self.store, settings, clock)
        self.lake = Lake.open(settings.folder / FOLDER)
        self.log = TransparencyLog(
            self.store, LogKey.open(settings.folder, settings.log_origin, random_bytes), settings.log_origin, clock
        )
        self.run = ServiceRun(clock, random_bytes)
        self.archiving = Archiving(self.archive, self.store, self.run)
        self.broadcast = HeadBroadcast(self.store)
        self.replays = Desk(self.store, self.archive, self.views, self.run, ReplayEngine(settings))
        self.loops = [
            Loop("views", follow(self.store, self.views.position, self.views.apply), clock),
            Loop("lake", follow(self.store, self.lake.position, self.lake.feed), clock),
            Loop("tree-head", sign_heads(self.store, self.log, settings.tree_head_every_s), clock),
            Loop("replays", judge_replays(self.store, self.replays), clock),
        ]
        self.health = Health(self.store, self.views, [loop.health for loop in self.loops], clock)

    async def drain(self) -> None:
        """End what would otherwise last for ever, so that open connections can finish."""
        await self.broadcast.close()

    @asynccontextmanager
    async def running(self, _: Litestar) -> AsyncIterator[None]:
        """The app's life: loops run inside; afterwards the last head is signed and everything is closed."""
        watching = asyncio.create_task(self.broadcast.run())
        for loop in self.loops:
            loop.start()
        try:
            yield
        finally:
            for loop in self.loops:
                loop.ask_to_stop()
            await self.drain()
            await watching
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Stop the loops, sign the last head, close. Doing it twice is harmless."""
        for loop in self.loops:
            loop.ask_to_stop()
        self.replays.close()  # a replay that runs is given up, so that its loop can end; it is judged after a restart
        for loop in self.loops:
            loop.stop()
        self.rebuilder.stop()
        try:
            if self.store.head():
                self.log.signed_head()
        finally:
            self.views.close()
            self.lake.close()
            self.store.close()


def create_app(
    settings: Settings, clock: Clock = system_clock, random_bytes: RandomBytes = os.urandom
) -> Litestar:  # fmt: skip
    """The service on one data folder, as an ASGI app. Raises SetupError."""
    return app_of(Service(settings, clock, random_bytes))


def app_of(service: Service) -> Litestar:
    """The ASGI app of a wired service."""
    doorkeeper = Doorkeeper(service.settings)
    app = Litestar(
        route_handlers=list(ROUTE_HANDLERS),
        dependencies={name: _given(getattr(service, name)) for name in _DEPENDENCIES},
        exception_handlers=problem_handlers(service.settings),
        guards=[refuse_unknown_parameters],
        lifespan=[service.running],
        request_max_body_size=service.settings.body_bytes_max,
        cors_config=_cors(doorkeeper.origins),
        openapi_config=_OPENAPI,
        logging_config=None,
    )
    app.asgi_handler = doorkeeper.guard(app.asgi_handler)  # type: ignore[arg-type, assignment]
    return app


def route_paths() -> set[str]:
    """The path of every route, for the documents' test."""
    nothing = {name: _given(None) for name in _DEPENDENCIES}
    app = Litestar(route_handlers=list(ROUTE_HANDLERS), dependencies=nothing, openapi_config=None)
    return {route.path_format for route in app.routes}


_OPENAPI = OpenAPIConfig(title="Retrace", version="1", path="/schema", render_plugins=[JsonRenderPlugin()])


def _given(value: Any) -> Provide:
    """A dependency that is there already."""
    return Provide(lambda: value, sync_to_thread=False)


def _cors(origins: list[str]) -> CORSConfig | None:
    """Only listed origins get CORS headers; never `*`, never an echo."""
    if not origins:
        return None
    return CORSConfig(
        allow_origins=origins, allow_methods=["GET", "HEAD", "POST", "PUT"],
        allow_headers=["content-type", "content-encoding", "authorization", "last-event-id", "if-none-match", "range"],
        expose_headers=["etag", "retry-after", "content-range", "retrace-next", "retrace-as-of-position"],
    )  # fmt: skip
