"""The service under test of the demo: `retrace serve` as a process of its own, reached over HTTP like any other."""

import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx

from service.errors import Unavailable
from service.settings import Settings

READY_WITHIN_S = 30
STOP_WITHIN_S = 30
LOOK_EVERY_S = 0.05


class ServiceProcess:
    """A running service on a free loopback port. Its own log goes to `service.log` in the data folder."""

    def __init__(self, settings: Settings) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log_path = settings.folder / "service.log"
        self._log: IO[bytes] = self.log_path.open("ab")
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "service.cli", "serve", "--data", settings.data,
                "--host", "127.0.0.1", "--port", str(port),
            ],
            stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        """Returns once the service takes requests. Raises Unavailable when it ends, or takes too long."""
        give_up_s = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < give_up_s:
            if self._process.poll() is not None:
                raise Unavailable(f"the service ended while it started:\n{last_words(self.log_path)}", retry_after_s=0)
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).is_success:
                    return
            except httpx.TransportError:
                pass  # nobody listens yet; whether the process still lives is asked above
            time.sleep(LOOK_EVERY_S)
        raise Unavailable(f"the service was not ready within {READY_WITHIN_S} s, see {self.log_path}", retry_after_s=0)

    def stop(self) -> None:
        """SIGTERM: it drains and signs a last tree head. Raises Unavailable when it does not end well."""
        self._process.terminate()
        exit_code = self._process.wait(STOP_WITHIN_S)
        if exit_code not in (0, -15):
            raise Unavailable(f"the service ended with {exit_code}:\n{last_words(self.log_path)}", retry_after_s=0)

    def kill(self) -> None:
        """SIGKILL: what a crash or the kernel would do. What was acknowledged before must be there afterwards."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._log.close()


def last_words(path: Path, lines: int = 20) -> str:
    """The end of the service's own log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
