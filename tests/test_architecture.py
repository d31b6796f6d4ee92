"""The table of rooms (docs/architecture.md) held against the code: which room may know which, and a few house rules."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RANKS = {
    "service.errors": 0,
    "service.settings": 1,
    "service.domain": 1,
    "service.store": 2,
    "service.artifacts": 2,
    "service.ingest": 3,
    "service.recording": 3,
    "service.projections": 3,
    "service.audit": 3,
    "service.replay": 3,
    "analytics": 3,
    "service.queries": 4,
    "service.ui": 5,
}
"""A room imports itself and rooms of a lower rank; rooms not listed (app, loops, cli, demo) see everything."""

EXCEPTIONS = {("service.store", "service.audit.merkle"): "leaf hashes are made in the append transaction; stdlib only"}
FORBIDDEN_ANYWHERE = {"pickle", "cPickle", "dill", "shelve", "marshal", "cloudpickle"}
VAGUE_MODULES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc", "version"}


def modules(*folders: str) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield dotted.removesuffix(".__init__"), path


def imports_of(name: str, path: Path) -> Iterator[tuple[str, int]]:
    """Every module that the file names in an import, with the line, relative ones resolved."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                origin = ".".join(package[: len(package) - node.level + 1] + ([origin] if origin else []))
            yield origin, node.lineno
            yield from ((f"{origin}.{alias.name}", node.lineno) for alias in node.names)


def room_of(module: str) -> str | None:
    return next((room for room in RANKS if module == room or module.startswith(room + ".")), None)


def test_imports_point_one_way() -> None:
    wrong = []
    for name, path in modules("service", "analytics"):
        room = room_of(name)
        for imported, line in imports_of(name, path) if room else ():
            other = room_of(imported)
            allowed = any(room == at and imported.startswith(what) for at, what in EXCEPTIONS)
            if other and other != room and RANKS[other] >= RANKS[room or ""] and not allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {imported}")
    assert not wrong, "\n".join(wrong)


def test_merkle_arithmetic_needs_only_the_standard_library() -> None:
    path = ROOT / "service/audit/merkle.py"
    assert not [i for i, _ in imports_of("service.audit.merkle", path) if i.startswith(("service", "analytics"))]


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("wgpu", ("service.replay.gpu",)),
        ("wasmtime", ("service.replay.wasm", "service.demo", "service.artifacts.packing")),
        ("duckdb", ("analytics",)),
    ],
)
def test_library_stays_in_its_room(library: str, homes: tuple[str, ...]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for name, path in modules("service", "analytics")
        for imported, line in imports_of(name, path)
        if imported.split(".")[0] == library and not name.startswith(homes)
    ]
    assert not wrong, wrong


def test_litestar_is_known_only_at_the_doors() -> None:
    door = re.compile(r"service\.(app|server|http(\.\w+)?|queries(\.\w+)?|ui(\.\w+)?|\w+\.routes\w*)$")
    wrong = {
        f"{path.relative_to(ROOT)}:{line}"
        for name, path in modules("service", "analytics")
        for imported, line in imports_of(name, path)
        if imported.split(".")[0] in {"litestar", "starlette"} and not door.match(name)
    }
    assert not wrong, wrong


def test_python_recorder_carries_no_server() -> None:
    path = ROOT / "service/recording/client.py"
    heavy = {"litestar", "sqlalchemy", "duckdb", "wgpu", "numpy", "pyarrow"}
    found = {i.split(".")[0] for i, _ in imports_of("service.recording.client", path)}
    assert not found & heavy
    assert not [i for i, _ in imports_of("service.recording.client", path) if i.startswith("service.store")]


def test_nothing_unpickles_or_evaluates_data() -> None:
    wrong = []
    for name, path in modules("service", "analytics"):
        wrong += [f"{path}:{line}" for i, line in imports_of(name, path) if i.split(".")[0] in FORBIDDEN_ANYWHERE]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
                wrong.append(f"{path}:{node.lineno} calls {node.func.id}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
                wrong.append(f"{path}:{node.value.lineno} allows pickles")
    assert not wrong, wrong


def test_no_module_has_a_vague_name() -> None:
    assert not [str(p) for name, p in modules("service", "analytics") if name.split(".")[-1] in VAGUE_MODULES]


def test_modules_stay_readable() -> None:
    """Only stops growth: past 400 lines a module has found a second subject and wants splitting."""
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for _, path in modules("service", "analytics")
    }
    long = {name: lines for name, lines in sizes.items() if lines > 400}
    assert not long, long


def test_every_module_says_what_lives_in_it() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for _, p in modules("service", "analytics")
        if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert not silent, silent


def test_lock_pins_everything_with_hashes_and_names_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    names = re.findall(r"^([a-z0-9._-]+(?:\[[^\]]+\])?)==", lock, re.MULTILINE)
    blocks = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert len(names) == len(blocks) > 50
    assert all("--hash=sha256:" in block for block in blocks)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    locked = {re.sub(r"\[.*", "", name) for name in names}
    assert {re.split(r"[<>=\[]", d)[0] for d in declared} <= locked
