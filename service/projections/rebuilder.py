"""One rebuild at a time inside the running service: started on request, watched while it folds, its end remembered."""

import threading
from typing import Literal

import msgspec

from service.domain.times import Clock, format_us
from service.errors import Unavailable
from service.projections.runner import EventSource, rebuild
from service.projections.views import Views
from service.settings import Settings


class RebuildReport(msgspec.Struct, frozen=True):
    """How the newest rebuild stands. `position` of `head` events are folded; `error` says why it failed."""

    state: Literal["none", "running", "done", "failed"] = "none"
    position: int = 0
    head: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    error: str | None = None


class Rebuilder:
    """Folds the views anew beside the live ones. May be asked from any thread."""

    def __init__(self, views: Views, store: EventSource, settings: Settings, clock: Clock) -> None:
        self._views = views
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self.report = RebuildReport()

    def start(self) -> RebuildReport:
        """Begin a rebuild, or join the one that runs."""
        with self._lock:
            if self.report.state != "running":
                now = format_us(self._clock())
                self.report = RebuildReport("running", 0, self._store.head(), started_at=now)
                self._thread = threading.Thread(target=self._run, name="retrace-rebuild", daemon=True)
                self._thread.start()
            return self.report

    def wait(self) -> RebuildReport:
        """Block until no rebuild runs."""
        if self._thread is not None:
            self._thread.join()
        return self.report

    def stop(self) -> None:
        """End a running rebuild after its batch; the live views stay as they are."""
        self._is_stopping = True
        self.wait()

    def _run(self) -> None:
        try:
            position = rebuild(self._views, self._store, self._settings, self._clock, self._progressed)
            self._ended("done", position, None)
        except Exception as error:
            self._ended("failed", self.report.position, f"{type(error).__name__}: {error}")

    def _progressed(self, position: int) -> None:
        if self._is_stopping:
            raise Unavailable("the service stops; begin the rebuild again after its start", retry_after_s=10)
        self.report = msgspec.structs.replace(self.report, position=position, head=self._store.head())

    def _ended(self, state: Literal["done", "failed"], position: int, error: str | None) -> None:
        ended_at = format_us(self._clock())
        self.report = msgspec.structs.replace(
            self.report, state=state, position=position, error=error, ended_at=ended_at
        )
