"""A rebuild gives what the live view has, row for row; readers are answered; a corrected fold clears poison."""

import threading
from pathlib import Path
from typing import Any

import pytest

from service.domain.envelope import StoredEvent
from service.projections import Views, participants
from service.projections.runner import catch_up, rebuild
from service.projections.standing import standing
from service.settings import Settings
from tests.projections.tape import START_US, S, Tape, participant, state
from tests.projections.test_views_do_not_depend_on_how_events_came import busy_tape, rows_of


class Store:
    """A store that is all in memory."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def read(
        self, after: int = 0, limit: int = 1000, up_to: int | None = None, stream: str | None = None
    ) -> list[StoredEvent]:  # fmt: skip
        return self.tape.read(after, limit, up_to, stream)

    def read_one(self, position: int) -> StoredEvent:
        return self.tape.events[position - 1]

    def head(self) -> int:
        return len(self.tape.events)


def test_rebuild_equals_the_live_view_row_for_row(views: Views) -> None:
    store = Store(busy_tape(7, 300))
    for end in (100, 101, 300):
        views.apply(store.read(0, end))
    live = rows_of(views)
    assert rebuild(views, store, Settings(), lambda: START_US) == 300
    assert rows_of(views) == live


def test_rebuild_shows_progress_and_takes_in_what_came_meanwhile(views: Views) -> None:
    tape, seen = Tape(), list[int]()
    for step in range(4500):
        tape.add("something.new", {"step": step})

    def progressed(position: int) -> None:
        seen.append(position)
        if position == 2000:
            tape.add("something.new", {})

    rebuild(views, Store(tape), Settings(), progressed=progressed)
    assert seen == [2000, 4000, 4501]
    assert views.position() == 4501


def test_reader_from_before_the_swap_reads_on_and_later_ones_see_the_new_file(views: Views, tape: Tape) -> None:
    tape.state(state(participant("p1")))
    catch_up(views, Store(tape))
    with views.reading() as connection:
        before = connection.execute("SELECT count(*) FROM jobs").fetchone()
    rebuild(views, Store(tape), Settings(), lambda: START_US)
    with views.reading() as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == before == (1,)


def test_corrected_fold_clears_the_quarantine(views: Views, tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(10):
        tape.state(state(participant("p1")))
    whole = participants.fold

    def broken(view: Any, observed: Any, job: Any) -> Any:
        if observed.position == 5:
            raise RuntimeError("a fold with a fault")
        return whole(view, observed, job)

    monkeypatch.setattr(participants, "fold", broken)
    catch_up(views, Store(tape))
    with views.reading() as connection:
        poison = connection.execute("SELECT position, view, reason, attempts FROM quarantine").fetchall()
    assert poison == [(5, "participants", "RuntimeError: a fold with a fault", 2)]
    monkeypatch.setattr(participants, "fold", whole)
    rebuild(views, Store(tape), Settings(), lambda: START_US)
    with views.reading() as connection:
        assert not connection.execute("SELECT * FROM quarantine").fetchall()


def test_standstill_while_events_wait_is_unwell_within_half_a_minute(tmp_path: Path, tape: Tape) -> None:
    now, store = [START_US], Store(tape)
    with Views.open(Settings(data=str(tmp_path)), lambda: now[0]) as views:
        now[0] += 3600 * S
        assert standing(views, store, now[0])["is_well"]
        tape.state(state(participant("p1")), at_s=3600)
        assert standing(views, store, now[0] + 19 * S)["is_well"]
        report = standing(views, store, now[0] + 29 * S)
        assert (report["is_well"], report["lag"], report["still_s"]) == (False, 1, 29)
        views.apply(tape.events)
        assert standing(views, store, now[0] + 29 * S)["is_well"]


def test_readers_are_answered_through_writes_and_swaps(views: Views) -> None:
    tape = busy_tape(11, 400)
    store, ended, wrong = Store(tape), threading.Event(), list[str]()

    def read() -> None:
        while not ended.is_set():
            with views.reading() as connection:
                [positions] = connection.execute(
                    "SELECT (SELECT max(position) FROM projection_progress), (SELECT max(position) FROM live_folds)"
                )
                if positions[0] != positions[1]:
                    wrong.append(f"progress and folds are apart: {positions}")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for start in range(0, 400, 20):
        views.apply(store.read(start, 20))
        if start % 100 == 0:
            rebuild(views, Store(cut(tape, start + 20)), Settings(), lambda: START_US)
    ended.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert views.position() == 400


def cut(tape: Tape, length: int) -> Tape:
    """The first events of a tape."""
    shorter = Tape()
    shorter.events = tape.events[:length]
    return shorter
