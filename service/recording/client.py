"""The Python recorder: reports states, commands and artifacts of one process to a Retrace service.

Emitting never waits for the network: a thread sends batches of NDJSON and sends the same ids and bytes again until they
are acknowledged. An event gets its `seq` when it leaves the bounded buffer, not when it enters: so snapshots that had
to be thinned leave no hole, and a hole always means that events were lost on the way. `recorder.thinned` says what was
thinned. Stable API: everything public here.
"""

import itertools
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import httpx
import msgspec

from service.domain import events
from service.domain.facts import tag_number
from service.domain.identifiers import RandomBytes, job_stream, recorder_stream, uuid7
from service.domain.secrets import remove_secrets
from service.domain.times import Clock, format_us, system_clock
from service.errors import Unavailable
from service.recording.buffer import EventBuffer, Waiting
from service.recording.delivery import Delivery

RECORDER_VERSION = "1"
BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 4 * 1024 * 1024
NDJSON = "application/x-ndjson"

P = ParamSpec("P")
R = TypeVar("R")


class Recorder:
    """One recorder run. May be used from any thread; use it as a context manager or call `close`.

    `site` says where the process runs (`https://lab.example`). Without `job` events go to the recorder's own stream.
    """

    def __init__(
        self, url: str, site: str, job: str | None = None, *, kind: str = "python", clock: Clock = system_clock,
        random_bytes: RandomBytes = os.urandom, transport: httpx.BaseTransport | None = None,
        buffer_bytes_max: int = 64 * 1024 * 1024,
    ) -> None:  # fmt: skip
        self.id = uuid7(clock(), random_bytes)
        self.site = site
        self.job = job
        self._clock = clock
        self._random_bytes = random_bytes
        self._delivery = Delivery(url, random_bytes, transport)
        self._buffer = EventBuffer(buffer_bytes_max)
        self._changed = threading.Condition()
        self._seq = itertools.count(1)
        self._emitted = self._settled = 0  # events put into the buffer; of these, acknowledged or thinned away
        self._acknowledged = 0
        self._is_closing = False
        self._failure: Exception | None = None
        started = events.RecorderStarted(kind, RECORDER_VERSION, f"Python/{platform.python_version()} {sys.platform}")
        self.emit(events.RECORDER_STARTED, msgspec.to_builtins(started))
        self._sender = threading.Thread(target=self._send_all, name="retrace-recorder", daemon=True)
        self._sender.start()

    def emit(self, event_type: str, data: dict[str, Any], *, causation_id: str | None = None) -> str:
        """Queue one event and return its id. `data` is copied now; non-finite numbers are tagged, secrets removed.

        Raises RecorderFull when nothing can be thinned any more, RecordingRefused once the service refused a batch.
        """
        text = msgspec.json.encode(remove_secrets(_tagged(data)))
        event_id = uuid7(self._clock(), self._random_bytes)
        stream = recorder_stream(self.id) if self.job is None else job_stream(self.job)
        event = Waiting(event_id, event_type, stream, format_us(self._clock()), text, causation_id)
        with self._changed:
            self._raise_failure()
            self._buffer.put(event)
            self._emitted += 1
            self._changed.notify_all()
        return event_id

    def report_state(self, document: dict[str, Any]) -> str:
        """Queue a snapshot: a whole State document."""
        return self.emit(events.STATE_REPORTED, document)

    def call(self, name: str, arguments: Any = None) -> "Call":
        """A command as a context: called when it is entered, returned when it is left, its error passed on."""
        return Call(self, name, arguments, self._clock)

    def wrap(self, command: Callable[P, R], name: str | None = None) -> Callable[P, R]:
        """The same command, recorded each time it is called. Positional arguments are recorded as a list."""

        def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
            given: Any = {"args": list(args), **kwargs} if kwargs else list(args)
            with self.call(name or command.__name__, given) as call:
                result = command(*args, **kwargs)
                call.result = result
                return result

        return recorded

    def upload_artifact(
        self, role: str, data: bytes, *, round: int | None = None, timeout_s: float = 60  # noqa: A002
    ) -> str:  # fmt: skip
        """Archive bytes under the job; returns their SHA-256 once they are kept.

        Raises RecordingRefused, or Unavailable when there was no success within `timeout_s`.
        """
        digest = sha256(data).hexdigest()
        parameters = {"role": role, "job": self.job, "round": round}
        given = {name: value for name, value in parameters.items() if value is not None}
        answer = self._delivery.send(
            "PUT", f"/v1/artifacts/{digest}", data,
            content_type="application/octet-stream", pause=self._pause_until(timeout_s), parameters=given,
        )  # fmt: skip
        if answer is None:
            raise Unavailable(f"artifact {digest} was not taken within {timeout_s} s; upload it again", retry_after_s=1)
        return digest

    def flush(self, timeout_s: float = 30) -> None:
        """Wait until everything emitted so far is acknowledged.

        Raises RecordingRefused, or Unavailable when it takes longer: what waits goes on being sent.
        """
        with self._changed:
            wanted = self._emitted
            is_done = self._changed.wait_for(lambda: self._settled >= wanted or self._failure is not None, timeout_s)
            self._raise_failure()
        if not is_done:
            raise Unavailable(
                f"{wanted - self._settled} events were not acknowledged in {timeout_s} s", retry_after_s=1
            )

    def close(self, timeout_s: float = 30) -> int:
        """End the run: `recorder.stopped`, then flush. Returns how many events the service acknowledged."""
        try:
            if not self._is_closing:
                self.emit(events.RECORDER_STOPPED, {})
                self.flush(timeout_s)
        finally:
            with self._changed:
                self._is_closing = True
                self._changed.notify_all()
            self._sender.join()
            self._delivery.close()
        return self._acknowledged

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _send_all(self) -> None:
        """The sender's thread: one batch after the other, until closed or refused."""
        while batch := self._next_batch():
            lines = b"\n".join(self._line(event) for event in batch)
            try:
                answer = self._delivery.send("POST", "/v1/events", lines, content_type=NDJSON, pause=self._pause)
            except Exception as failure:
                # Refused for good, or something nobody foresaw: whoever emits, flushes or closes next hears it.
                with self._changed:
                    self._failure = failure
                    self._changed.notify_all()
                return
            if answer is None:
                return
            with self._changed:
                self._acknowledged += len(batch)
                self._settled += sum(event.stands_for for event in batch)
                self._changed.notify_all()

    def _next_batch(self) -> list[Waiting]:
        with self._changed:
            self._changed.wait_for(lambda: len(self._buffer) > 0 or self._is_closing)
            return self._buffer.take(BATCH_EVENTS_MAX, BATCH_BYTES_MAX) if not self._is_closing else []

    def _line(self, event: Waiting) -> bytes:
        source = {"recorder": self.id, "seq": next(self._seq), "site": self.site}
        return msgspec.json.encode({
            "id": event.id, "type": event.type, "schema_version": 1, "stream": event.stream,
            "observed_at": event.observed_at, "source": source, "correlation_id": None,
            "causation_id": event.causation_id, "data": msgspec.Raw(event.data),
        })  # fmt: skip

    def _pause(self, seconds: float) -> bool:
        """Wait, but no longer than the recorder lives."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._is_closing, seconds)

    def _pause_until(self, timeout_s: float) -> Callable[[float], bool]:
        end_s = time.monotonic() + timeout_s
        return lambda seconds: time.monotonic() + seconds < end_s and self._pause(seconds)


class Call:
    """A command while it runs. Set `result` to what it returns; a returned command says nothing about training."""

    def __init__(self, recorder: Recorder, name: str, arguments: Any, clock: Clock) -> None:
        self.result: Any = None
        self._recorder = recorder
        self._name = name
        self._arguments = arguments
        self._clock = clock
        self._started_us = 0
        self.called_id = ""
        """Id of the `command.called` event, once entered."""

    def __enter__(self) -> Self:
        called = {"name": self._name, "arguments": self._arguments}
        self.called_id = self._recorder.emit(events.COMMAND_CALLED, called)
        self._started_us = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        returned: dict[str, Any] = {
            "name": self._name,
            "outcome": "ok",
            "duration_ms": (self._clock() - self._started_us) / 1000,
        }
        if error is None:
            returned["result"] = self.result
        else:
            code = getattr(error, "code", type(error).__name__)
            returned |= {"outcome": "error", "error_code": str(code), "error_message": str(error)}
        self._recorder.emit(events.COMMAND_RETURNED, returned, causation_id=self.called_id)


def _tagged(value: Any) -> Any:
    """A copy with every non-finite float as its tag."""
    if isinstance(value, float):
        return tag_number(value)
    if isinstance(value, dict):
        return {key: _tagged(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tagged(item) for item in value]
    return value
