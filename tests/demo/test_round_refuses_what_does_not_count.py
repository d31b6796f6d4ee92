"""A round's own rules, without any process."""

import pytest

from service.demo.messages import Result
from service.demo.rounds import DUPLICATE_RESULT, LATE_RESULT, UNKNOWN_ASSIGNMENT, OpenRound, PageRefusal, plan_round
from service.demo.training import Scores


def result(assignment_id: str) -> Result:
    return Result(assignment_id, 10, b"", "0" * 64, Scores(1.0, 0.5))


def refusal_of(opened: OpenRound, assignment_id: str) -> str:
    with pytest.raises(PageRefusal) as refused:
        opened.deliver(result(assignment_id))
    return refused.value.code


def test_unknown_late_and_second_results_have_codes() -> None:
    opened = plan_round("job", 3, {"p1": 10, "p2": 20})
    assert refusal_of(opened, "job/r02/p1") == UNKNOWN_ASSIGNMENT
    opened.deliver(result("job/r03/p1"))
    assert refusal_of(opened, "job/r03/p1") == DUPLICATE_RESULT
    opened.close()
    assert refusal_of(opened, "job/r03/p2") == LATE_RESULT


def test_results_are_summed_in_the_order_of_assignments_not_of_arrival() -> None:
    opened = plan_round("job", 1, {"p1": 10, "p2": 20})
    for assignment_id in ("job/r01/p2", "job/r01/p1"):
        opened.deliver(result(assignment_id))
    assert [assignment.participant for assignment, _ in opened.close()] == ["p1", "p2"]


def test_who_gave_up_is_not_waited_for_and_does_not_count() -> None:
    opened = plan_round("job", 1, {"p1": 10, "p2": 20})
    opened.give_up("job/r01/p2")
    assert opened.outstanding() == {"p1"}
    opened.deliver(result("job/r01/p1"))
    assert opened.outstanding() == set()
    assert [assignment.participant for assignment, _ in opened.close()] == ["p1"]
