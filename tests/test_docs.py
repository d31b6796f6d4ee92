"""Documents kept true: what a reader sees is run, and what the code offers is documented.

In README.md and docs/*.md a fenced `console` block is a session: lines that begin with `$ ` are run by bash, the lines
below are what it must print, where `…` stands for anything. `$ retrace serve … &` starts the service for the rest of
the page. A fenced `python` block is run as a program. Port 7400 is replaced by a free one.
"""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from service import errors
from service.cli import COMMANDS
from service.domain.events import KNOWN_TYPES
from service.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


class Session:
    """A page's commands in one folder, with the service that the page starts."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self.folder = folder
        self.services: list[subprocess.Popen[bytes]] = []
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "RETRACE_PORT": self.port, "COLUMNS": "100", "NO_COLOR": "1"}

    def run(self, command: str) -> str:
        command = command.replace("7400", self.port)
        if command.endswith(" &"):
            self.start(command.removesuffix(" &"))
            return ""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        return (done.stdout + done.stderr).replace(self.port, "7400")

    def start(self, command: str) -> None:
        log = (self.folder / "service.log").open("wb")
        with log:
            arguments = ["bash", "-c", f"exec {command}"]
            service = subprocess.Popen(arguments, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.services.append(service)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError):
                assert service.poll() is None, (self.folder / "service.log").read_text()
                time.sleep(0.1)  # a process is starting: there is nothing to wait on but its door
        raise AssertionError((self.folder / "service.log").read_text())

    def close(self) -> None:
        for service in self.services:
            service.terminate()
            service.wait(timeout=30)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path)
    yield session
    session.close()


def expected_as_pattern(lines: list[str]) -> str:
    return r"\s*".join(r".*?".join(re.escape(part) for part in line.strip().split("…")) for line in lines) + r"\s*"


def steps(block: str) -> Iterator[tuple[str, list[str]]]:
    """(command, expected lines) pairs of a console block; a trailing backslash continues a command."""
    command, expected = "", list[str]()
    for line in block.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        else:
            expected.append(line)
    if command:
        yield command, expected


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: str(p.relative_to(ROOT))
)
def test_what_the_page_shows_is_what_happens(page: Path, session: Session) -> None:
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "python":
            (session.folder / "snippet.py").write_text(block.replace("7400", session.port))
            done = subprocess.run(
                [sys.executable, "snippet.py"],
                cwd=session.folder, env=session.environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
            continue
        for command, expected in steps(block):
            printed = session.run(command)
            pattern = expected_as_pattern(expected)
            assert re.fullmatch(pattern, printed, re.DOTALL), f"$ {command}\n{printed}\n--- wanted ---\n" + "\n".join(
                expected
            )


def all_errors(root: type[errors.RetraceError] = errors.RetraceError) -> Iterator[type[errors.RetraceError]]:
    yield root
    for child in root.__subclasses__():
        yield from all_errors(child)


def test_every_error_code_is_documented() -> None:
    page = text_of("docs/rest-api.md")
    assert not sorted({error.code for error in all_errors() if f"`{error.code}`" not in page})


def test_error_codes_are_unique() -> None:
    codes = [error.code for error in all_errors()]
    assert not {code for code in codes if codes.count(code) > 1}


def test_every_event_type_is_documented() -> None:
    page = text_of("docs/events.md")
    assert not sorted(name for name in KNOWN_TYPES if f"`{name}`" not in page)


def test_every_setting_is_documented_with_its_default() -> None:
    page = text_of("docs/operations.md")
    for field in msgspec.structs.fields(Settings):
        row = re.search(rf"^\| `RETRACE_{field.name.upper()}` \| `?(.*?)`? \|", page, re.MULTILINE)
        assert row, f"docs/operations.md has no row for RETRACE_{field.name.upper()}"
        assert row.group(1).replace(",", "") == ("none" if field.default is None else str(field.default)), field.name


def test_every_command_is_documented() -> None:
    page = text_of("docs/operations.md")
    assert not [name for name in COMMANDS if f"`retrace {name}" not in page]


def test_every_route_is_documented() -> None:
    from service.app import route_paths

    page = text_of("docs/rest-api.md")
    assert not sorted(path for path in route_paths() if f"`{path}`" not in page and f" {path}" not in page)


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not broken, broken
