"""Stale episodes: silence beyond the job's own limit, by fresh evidence only, open at the end, never after leaving."""

from tests.analytics.conftest import Asking
from tests.analytics.history import PAGE, History, participant

LIMIT_1_S = {"settings": {"staleAfterMs": 1000}}


def own_report(history: History, at_s: float, status: str = "joined") -> None:
    history.state(
        at_s=at_s, recorder=PAGE, job_says=LIMIT_1_S, participants=[participant("p1", local=True, status=status)]
    )


def test_silence_as_long_as_the_limit_is_stale_and_a_little_less_is_not(history: History, asked: Asking) -> None:
    for at_s in (0, 0.999, 1.999):
        own_report(history, at_s)
    [episode] = asked("stale-episodes", job="j1")
    assert (episode["last_position"], episode["next_position"]) == (2, 3)
    assert (episode["gap_s"], episode["stale_s"], episode["limit_s"]) == (1.0, 0.0, 1.0)


def test_page_that_merely_lists_a_silent_participant_proves_nothing(history: History, asked: Asking) -> None:
    own_report(history, 0)
    for at_s in (0.5, 1.0, 1.5, 2.0, 2.5):
        listed = participant("p1", lastSeenAt=1000, stageSeq=4)
        history.state(at_s=at_s, job_says=LIMIT_1_S, participants=[listed])
    own_report(history, 3)
    [episode] = asked("stale-episodes", job="j1")
    assert episode["next_position"] == 7


def test_marker_that_moves_on_is_fresh_evidence(history: History, asked: Asking) -> None:
    own_report(history, 0)
    for at_s in (0.4, 0.8, 1.2, 1.6, 2.4):
        listed = participant("p1", lastSeenAt=1000 + at_s, stageSeq=4)
        history.state(at_s=at_s, job_says=LIMIT_1_S, participants=[listed])
    own_report(history, 3)
    assert asked("stale-episodes", job="j1") == []


def test_episode_at_the_end_is_open(history: History, asked: Asking) -> None:
    own_report(history, 0)
    history.state(at_s=5, job_says=LIMIT_1_S)
    [episode] = asked("stale-episodes")
    assert (episode["until"], episode["next_position"], episode["gap_s"]) == (None, None, 5.0)


def test_who_has_left_is_not_stale(history: History, asked: Asking) -> None:
    own_report(history, 0)
    own_report(history, 0.5, status="left")
    history.state(at_s=60, job_says=LIMIT_1_S)
    assert asked("stale-episodes") == []


def test_job_without_a_limit_uses_the_parameter(history: History, asked: Asking) -> None:
    for at_s in (0, 9.9, 20.0):
        history.state(at_s=at_s, recorder=PAGE, participants=[participant("p1", local=True)])
    assert [row["last_position"] for row in asked("stale-episodes")] == [2]
    assert len(asked("stale-episodes", stale_after_s="5")) == 2


def test_listing_without_any_marker_proves_nothing(history: History, asked: Asking) -> None:
    own_report(history, 0)
    for at_s in (0.5, 1.0, 1.5, 2.0, 2.5):
        history.state(at_s=at_s, job_says=LIMIT_1_S, participants=[participant("p1")])
    own_report(history, 3)
    [episode] = asked("stale-episodes", job="j1")
    assert (episode["last_position"], episode["next_position"], episode["gap_s"]) == (1, 7, 3.0)


def listed_by_owner(history: History, at_s: float, status: str) -> None:
    history.state(at_s=at_s, role="owner", job_says=LIMIT_1_S, participants=[participant("p1", status=status)])


def test_who_the_owner_saw_leave_is_not_stale(history: History, asked: Asking) -> None:
    own_report(history, 0)
    listed_by_owner(history, 0.5, "joined")
    listed_by_owner(history, 0.8, "left")
    listed_by_owner(history, 60, "left")
    assert asked("stale-episodes") == []


def test_leaving_ends_the_episode(history: History, asked: Asking) -> None:
    own_report(history, 0)
    listed_by_owner(history, 0.5, "joined")
    listed_by_owner(history, 5, "left")
    listed_by_owner(history, 60, "left")
    [episode] = asked("stale-episodes")
    assert (episode["next_position"], episode["gap_s"], episode["stale_s"]) == (3, 5.0, 4.0)


def test_guest_has_no_say_in_who_left(history: History, asked: Asking) -> None:
    listed_by_owner(history, 0, "joined")
    history.state(
        at_s=0.5, recorder=PAGE, role="guest", job_says=LIMIT_1_S, participants=[participant("p1", status="left")]
    )
    listed_by_owner(history, 5, "joined")
    [episode] = asked("stale-episodes")
    assert (episode["until"], episode["gap_s"]) == (None, 5.0)
