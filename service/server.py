"""`serve`: the app under uvicorn, one worker, until SIGINT or SIGTERM. One process keeps the writer single."""

import os
import socket

import uvicorn

from service.app import Service, app_of
from service.domain.times import system_clock
from service.settings import Settings

GRACE_S = 10
"""How long open requests may take to finish when the service is told to stop."""


class _Server(uvicorn.Server):
    """uvicorn that first ends the live tails: it would wait for them otherwise."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._service.drain()
        await super().shutdown(sockets)


def serve(settings: Settings) -> None:
    """Serve the data folder on `settings.host:settings.port`. Raises SetupError before a port is bound."""
    service = Service(settings, system_clock, os.urandom)
    config = uvicorn.Config(
        app_of(service), host=settings.host, port=settings.port, loop="uvloop", http="httptools", lifespan="on",
        access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_S,
    )  # fmt: skip
    try:
        _Server(config, service).run()
    finally:
        service.close()
