"""The words of docs/vocabulary.md held against the code: one meaning each."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = [p for folder in ("service", "analytics") for p in sorted((ROOT / folder).rglob("*.py"))]


def identifiers(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_no_bare_version_is_named() -> None:
    assert not {str(p.relative_to(ROOT)) for p in CODE if "version" in identifiers(p)}


def test_liveness_is_not_called_status() -> None:
    """`status` stays for what a page reported; ours is computed and called liveness."""
    wrong = {p.name for p in CODE if {"is_status", "liveness_status", "status_fresh"} & identifiers(p)}
    assert not wrong


def test_checkpoint_means_a_model_checkpoint() -> None:
    """A follower's progress is `projection_progress`, the log's signed state is a tree head."""
    clash = re.compile(r"(projection|log|wal|reader)_checkpoint\b|checkpoint_(position|offset)\b", re.IGNORECASE)
    wrong = {f"{p.relative_to(ROOT)}: {i}" for p in CODE for i in identifiers(p) if clash.search(i)}
    assert not wrong


def test_positions_are_not_called_offsets() -> None:
    wrong = {
        f"{p.relative_to(ROOT)}: {i}" for p in CODE for i in identifiers(p) if re.search(r"event_offset|log_offset", i)
    }
    assert not wrong


def test_vocabulary_page_defines_each_word_once() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/vocabulary.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows)) > 10
