"""One round of the aggregation server: who was asked for what, which results count, and why a result is refused.

Pure: no process, no clock, no message. Results are summed in the order of the assignments, never of their arrival, so
that the same results always give the same model.
"""

from collections.abc import Mapping

import msgspec

from service.demo.messages import Result

LATE_RESULT = "late_result"
UNKNOWN_ASSIGNMENT = "unknown_assignment"
DUPLICATE_RESULT = "duplicate_result"


class PageRefusal(Exception):
    """The training API refused a command: a stable code and a sentence, as a page would see them."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Assignment(msgspec.Struct, frozen=True):
    """One participant's work in one round."""

    id: str
    participant: str
    units: int


class OpenRound:
    """A round from its assignments until it is closed; results that come later are refused."""

    def __init__(self, number: int, assignments: list[Assignment]) -> None:
        self.number = number
        self.is_closed = False
        self.assignments = assignments
        self._assignments = {assignment.id: assignment for assignment in assignments}
        self._results: dict[str, Result] = {}
        self._failed: set[str] = set()

    def deliver(self, result: Result) -> None:
        """Take a result. Raises PageRefusal when it is unknown, late or a second one."""
        assignment = self._assignments.get(result.assignment_id)
        if assignment is None:
            raise PageRefusal(UNKNOWN_ASSIGNMENT, f"nobody was asked for {result.assignment_id!r}")
        if self.is_closed:
            raise PageRefusal(LATE_RESULT, f"round {self.number} was closed without the result of {assignment.id}")
        if assignment.id in self._results:
            raise PageRefusal(DUPLICATE_RESULT, f"the result of {assignment.id} was already taken")
        self._results[assignment.id] = result

    def give_up(self, assignment_id: str) -> None:
        """The participant could not do it: the round goes on without this assignment."""
        self._failed.add(assignment_id)

    def outstanding(self) -> set[str]:
        """Participants whose result is neither there nor given up."""
        settled = self._results.keys() | self._failed
        return {assignment.participant for key, assignment in self._assignments.items() if key not in settled}

    def close(self) -> list[tuple[Assignment, Result]]:
        """No result counts from now on. Those that do, in summing order."""
        self.is_closed = True
        return [
            (assignment, self._results[key]) for key, assignment in self._assignments.items() if key in self._results
        ]


def plan_round(job: str, number: int, units: Mapping[str, int]) -> OpenRound:
    """The round's assignments, in the order of `units` (participant to examples)."""
    return OpenRound(
        number, [Assignment(f"{job}/r{number:02}/{participant}", participant, n) for participant, n in units.items()]
    )
