"""What goes wrong in the demo, and it truly does: which participant, which round. Everything is triggered by round.

Found again afterwards from the record alone (`service.demo.lookback`), which does not read this plan.
"""

import os
import signal
from collections.abc import Mapping

import msgspec


class Incidents(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one job. A round of None means: not in this job."""

    joins: dict[str, int] = {}
    """Participant to the first round it takes part in; all others are there from the start."""
    leaves: dict[str, int] = {}
    """Participant to the last round it takes part in."""
    suspended: dict[str, int] = {}
    """Participant to the round in which its process is stopped until it is stale and the round is over."""
    overloaded: dict[str, int] = {}
    """Participant to the round in which it is asked for one example more than it holds, so that its training raises."""
    start_again_in: int | None = None
    """The round in which the owner calls `start` although the job is running."""

    def joining_in(self, number: int) -> list[str]:
        """Who joins before this round begins."""
        return [participant for participant, first in self.joins.items() if first == number]

    def leaving_after(self, number: int) -> list[str]:
        """Who leaves once this round is over."""
        return [participant for participant, last in self.leaves.items() if last == number]

    def suspended_in(self, number: int) -> set[str]:
        """Whose process is stopped in this round."""
        return {participant for participant, round_ in self.suspended.items() if round_ == number}

    def units(self, participant: str, number: int, examples: int) -> int:
        """How many examples the participant is asked to train on: all it holds, or one more."""
        return examples + (self.overloaded.get(participant) == number)


MEMBERSHIP = Incidents(joins={"p6": 4}, leaves={"p3": 7})
"""Someone comes and someone goes."""
EVERYTHING = Incidents(
    joins={"p6": 4}, leaves={"p3": 7}, start_again_in=2, overloaded={"p2": 5}, suspended={"p5": 6}
)  # fmt: skip
"""All that can be planned; that p4 gets no GPU is its machine's own doing (`service.demo.participant`)."""


class Processes:
    """The participants' processes, to stop one of them and let it go on."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)

    def suspend(self, participant: str) -> None:
        """SIGSTOP: the process stands still, with everything in it, and cannot notice."""
        os.kill(self._pids[participant], signal.SIGSTOP)

    def resume(self, participant: str) -> None:
        """SIGCONT: it goes on where it stood."""
        os.kill(self._pids[participant], signal.SIGCONT)
