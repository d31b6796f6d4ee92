"""Rows in memory, in segments, or in both give the same answers; so does a lake that was opened again or made anew."""

from pathlib import Path
from typing import Any

import pytest

from analytics.lake import Lake
from analytics.questions import list_questions
from tests.analytics.conftest import answer_of
from tests.analytics.history import PAGE, History, checkpoint, participant


@pytest.fixture
def run() -> History:
    """A run in which everything that has a table is said at least once, most of it several times."""
    history = History()
    for step in range(12):
        word = participant(
            "2024-01-01" if step % 2 else "損失", local=True, name="NaN", backend="wasm-cpu", requestedBackend="webgpu",
            stage=("downloading", "training")[step % 2], stageSeq=step, computeOnlySamplesPerSecond=step * 1.5,
            stageDurationsMs={"downloading": 100, "training": 200},
        )  # fmt: skip
        rounds = [checkpoint(number, loss=1 / (number + 1)) for number in range(step // 3)]
        history.state(at_s=step * 20, recorder=PAGE, participants=[word], checkpoints=rounds)
    called = history.say("command.called", {"name": "start"}, at_s=300)
    refused = {"name": "start", "outcome": "error", "error_code": "wrong_state", "error_message": "job is running"}
    history.say("command.returned", refused, at_s=301, causation_id=called.event.id)
    history.say("command.called", {"name": "stop"}, at_s=302)
    return history


def all_answers(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    names = [question for question in list_questions() if all(p.name == "job" for p in question.parameters)]
    return {q.name: answer_of(lake, q.name, **({"job": "j1"} if q.parameters else {})) for q in names}


@pytest.mark.parametrize("segment_events", [1, 4, 7, 1000])
def test_answers_do_not_depend_on_where_rows_are(tmp_path: Path, run: History, segment_events: int) -> None:
    hot, mixed = Lake.open(tmp_path / "hot"), Lake.open(tmp_path / "mixed", segment_events=segment_events)
    hot.feed(run.events)
    for at in range(0, len(run.events), 4):
        mixed.feed(run.events[at : at + 4])
    wanted = all_answers(hot)
    assert all_answers(mixed) == wanted
    assert any(wanted.values())
    mixed.close()
    reopened = Lake.open(tmp_path / "mixed")
    reopened.feed(run.events)
    assert all_answers(reopened) == wanted
    for lake in (hot, reopened):
        lake.close()


def test_repeats_after_a_restart_are_still_repeats(tmp_path: Path, run: History) -> None:
    lake = Lake.open(tmp_path / "lake", segment_events=1)
    lake.feed(run.events[:6])
    lake.close()
    lake = Lake.open(tmp_path / "lake")
    lake.feed(run.events)
    with lake.look() as look:
        counts = [
            look.cursor.execute(f"SELECT count(*) FROM {table}").fetchall() for table in ("checkpoints", "metrics")
        ]
    lake.close()
    assert counts == [[(3,)], [(3,)]]


def test_names_that_look_like_something_else_stay_text(tmp_path: Path, run: History) -> None:
    """F38, through Parquet and back."""
    lake = Lake.open(tmp_path / "lake", segment_events=1)
    lake.feed(run.events)
    with lake.look() as look:
        found = look.cursor.execute("SELECT DISTINCT participant, name FROM snapshots ORDER BY 1").fetchall()
    lake.close()
    assert found == [("2024-01-01", "NaN"), ("損失", "NaN")]


def test_hole_in_the_positions_is_refused(tmp_path: Path, run: History) -> None:
    lake = Lake.open(tmp_path / "lake")
    lake.feed(run.events[:3])
    with pytest.raises(ValueError, match="hole"):
        lake.feed(run.events[4:])
    lake.close()


def test_unreadable_snapshot_is_set_aside_and_the_others_go_on(tmp_path: Path, history: History) -> None:
    history.state(participants=[participant("p1")])
    history.state(participants="not a list")
    history.state(participants=[participant("p2")])
    lake = Lake.open(tmp_path / "lake")
    lake.feed(history.events)
    with lake.look() as look:
        assert look.cursor.execute("SELECT position FROM unreadable").fetchall() == [(2,)]
        assert look.cursor.execute("SELECT participant FROM snapshots").fetchall() == [("p1",), ("p2",)]
    lake.close()


def test_the_engine_reaches_no_file_but_its_own_and_cannot_be_unlocked(lake: Lake) -> None:
    """F44."""
    attacks = (
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
    )
    for attack in attacks:
        with lake.look() as look, pytest.raises(Exception, match=r"(?i)disabled|locked|permission|cannot"):
            look.cursor.execute(attack).fetchall()


@pytest.mark.parametrize("number", [2**63, 2**70, -(2**80), 1e300])
def test_number_that_no_column_can_hold_stops_nothing(tmp_path: Path, history: History, number: float) -> None:
    word = participant("p1", local=True, stageSeq=number, computeOnlySamplesPerSecond=number, workers=number)
    history.state(participants=[word], checkpoints=[checkpoint(1, loss=number) | {"round": number, "bytes": number}])
    history.state(participants=[participant("p2")])
    lake = Lake.open(tmp_path / "lake")
    assert lake.feed(history.events) == 2
    with lake.look() as look:
        assert look.cursor.execute("SELECT DISTINCT participant FROM snapshots ORDER BY 1").fetchall() == [
            ("p1",),
            ("p2",),
        ]
    lake.close()
