"""Laws of folding: batch splits, redelivery and restarts change nothing; looking back equals folding from the first."""

import random
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.projections import Views
from service.projections.coverage import digest_of
from service.projections.streams import StreamFold, fold_on
from service.projections.thresholds import Thresholds
from service.settings import Settings
from tests.projections.tape import START_US, Tape, participant, state

TABLES = (
    "quarantine", "jobs", "live_folds", "fold_caches", "recorder_runs", "recorder_streams", "recorder_gaps",
    "recorder_life", "commands", "replays", "artifacts", "checkpoint_reports", "documents", "intervals",
    "flags", "metrics",
)  # fmt: skip


def opened(folder: Path, name: str) -> Views:
    return Views.open(Settings(), lambda: START_US, folder / name)


def rows_of(views: Views) -> dict[str, list[Any]]:
    """Every row of every view, without the time at which progress was written."""
    with views.reading() as connection:
        rows = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in TABLES}
        progress = "SELECT view, position, quarantined, digest FROM projection_progress ORDER BY view"
        return {**rows, "progress": connection.execute(progress).fetchall()}


def busy_tape(seed: int, length: int) -> Tape:
    """A made-up history with everything that folds look at: several pages and jobs, gaps, poison, lateness."""
    dice, tape, at_s = random.Random(seed), Tape(), 0.0
    for step in range(length):
        at_s += dice.choice((0.1, 2, 2, 2, 61, 11))
        recorder, job = dice.choice(("rec-a", "rec-b", "rec-c")), dice.choice(("j1", "j1", "j2"))
        seq = dice.choice((None, None, None, dice.randint(1, 40)))
        place: dict[str, Any] = {"at_s": at_s, "recorder": recorder, "stream": f"job-{job}", "seq": seq}
        kind = dice.random()
        if kind < 0.7:
            tape.state(_document(dice, step, recorder), **place)
        elif kind < 0.8:
            tape.add("command.called", {"name": "start"}, **place)
        elif kind < 0.85:
            tape.add("command.returned", {"name": "start", "outcome": dice.choice(("ok", "error"))}, **place,
                     causation_id=tape.events[dice.randrange(step)].event.id if step else None)  # fmt: skip
        elif kind < 0.9:
            tape.state({"role": "owner", "participants": {}, "job": dice.choice((None, {}, 3))}, **place)
        elif kind < 0.95:
            sha256 = f"{dice.randint(1, 5):064x}"
            tape.add("artifact.archived", {"role": "checkpoint", "sha256": sha256, "size_bytes": 1}, **place)
        else:
            tape.add("something.new", {"step": step}, **place)
    return tape


def _document(dice: random.Random, step: int, recorder: str) -> dict[str, Any]:
    names = dice.sample(["p1", "p2", "p3"], dice.randint(1, 3))
    own = {"rec-a": "p1", "rec-b": "p2", "rec-c": "p1"}[recorder]
    people = [
        participant(
            name,
            local=name == own,
            seen_ms=dice.choice((step, 5, None)),
            backend=dice.choice(("webgpu", "wasm-cpu", None)),
            stage=dice.choice(("training", "uploading")),
            computeOnlySamplesPerSecond=dice.choice((None, 10, 4000)),
        )
        for name in names
    ]
    for person in people:
        person["status"] = dice.choice(("joined", "joined", "left"))
    checkpoints = [
        {
            "round": n,
            "sha256": dice.choice((f"{n:064x}", None)),
            "metrics": {"training": {"loss": dice.choice((n, "NaN"))}},
        }
        for n in range(1, dice.randint(1, 4))
    ]
    role, phase = ("owner" if recorder == "rec-a" else "guest"), dice.choice(("running", "stopped"))
    return state(*people, role=role, phase=phase, round_number=dice.randint(1, 9), checkpoints=checkpoints)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("views")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 60), max_size=8), back=st.integers(0, 20))
def test_any_batch_split_and_redelivery_give_the_same_rows(
    folder: Path, seed: int, cuts: list[int], back: int
) -> None:  # fmt: skip
    events = busy_tape(seed, 60).events
    for old in folder.glob("*"):
        old.unlink()
    with opened(folder, "whole.sqlite") as whole:
        whole.apply(events)
        expected = rows_of(whole)
    edges = [0, *sorted(cuts), len(events)]
    for start, end in pairwise(edges):
        with opened(folder, "parts.sqlite") as parts:  # opened anew: what is in memory must not matter
            parts.apply(events[max(0, start - back) : end])
    with opened(folder, "parts.sqlite") as parts:
        assert rows_of(parts) == expected


def test_looking_back_equals_folding_from_the_first_event(tmp_path: Path) -> None:
    tape, dice = busy_tape(1, 1500), random.Random(2)
    with opened(tmp_path, "views.sqlite") as views:
        views.apply(tape.events)
        with views.reading() as connection:
            for position in dice.sample(range(1, 1501), 200):
                events = tape.read(0, position, position, "job-j1")
                expected = fold_on(StreamFold(), events, Thresholds())
                assert views.fold_as_of(connection, "job-j1", position, tape.read) == (expected if events else None)


def test_progress_covers_exactly_what_was_folded(views: Views) -> None:
    events = busy_tape(3, 50).events
    views.apply(events)
    assert views.progress() == digest_of(events)
    assert views.progress() != digest_of(events[:-1])


def test_hole_is_refused_and_leaves_everything_as_it_was(views: Views) -> None:
    events = busy_tape(4, 20).events
    views.apply(events[:5])
    before = rows_of(views)
    with pytest.raises(ValueError, match="events are missing"):
        views.apply([*events[5:8], *events[9:]])
    assert rows_of(views) == before
    assert views.apply(events[5:]) == 20


def test_file_of_other_code_is_folded_again(tmp_path: Path) -> None:
    with opened(tmp_path, "views.sqlite") as views:
        views.apply(busy_tape(5, 10).events)
    with sqlite3.connect(tmp_path / "views.sqlite") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with opened(tmp_path, "views.sqlite") as views:
        assert views.position() == 0
