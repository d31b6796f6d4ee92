"""The coordinator's desk: takes what participants send, keeps the published state, and reports as the owner's page.

One thread, one loop (`serve_until`). Time only decides when the page reports; what happens is decided by messages and
by the plan's rounds.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from service.demo.job_plan import JobPlan
from service.demo.links import Switchboard
from service.demo.messages import (
    Closed,
    CloseJob,
    Download,
    Failed,
    Join,
    Leave,
    Model,
    Report,
    Result,
    ToCoordinator,
    ToParticipant,
    Verdict,
    View,
)
from service.demo.page import Page
from service.demo.published import Published
from service.demo.rounds import OpenRound, PageRefusal
from service.domain.times import US_PER_S, Clock
from service.errors import Unavailable

PATIENCE_S = 60
"""How long a single step may take before the demo gives up instead of hanging."""


class Suspender(Protocol):
    """What stops a participant's process and lets it go on."""

    def suspend(self, participant: str) -> None:
        """Stop it."""

    def resume(self, participant: str) -> None:
        """Let it go on."""


class Wires(NamedTuple):
    """What connects a coordinator with its participants, and its clock."""

    switchboard: Switchboard
    processes: Suspender
    clock: Clock


class Desk:
    """Everything that one job's participants and its owner's page have to do with each other."""

    def __init__(self, plan: JobPlan, published: Published, page: Page, wires: Wires) -> None:
        self.round = OpenRound(0, [])
        self.model = b""
        """The model that is handed out: the newest checkpoint's bytes."""
        self.examples: dict[str, int] = {}
        """How many examples each participant holds, by its own word."""
        self.refused: set[str] = set()
        """Participants of whom a result was refused."""
        self.closed: set[str] = set()
        """Participants whose pages are recorded to their last event."""
        self._plan = plan
        self._published = published
        self._page = page
        self._switchboard, self._processes, self._clock = wires
        self._stopped: dict[str, str] = {}
        self._dismissed: set[str] = set()
        self._next_snapshot_us = 0

    def send(self, participant: str, message: ToParticipant) -> None:
        """Hand a message to one participant."""
        self._switchboard.send(participant, message)

    def snapshot(self) -> None:
        """Show the published state to every page that can see it, and report the own one."""
        view = self._published.view()
        self._page.view = view
        for participant in self._published.joined:
            if (
                participant not in self._dismissed and participant not in self._stopped
            ):  # a stopped process empties no pipe
                self.send(participant, View(view))
        self._page.report()
        self._next_snapshot_us = self._clock() + self._plan.snapshot_interval_ms * 1000

    def dismiss(self, participant: str) -> None:
        """The last word to a participant of this job: it shows the end, closes its page, and hears no more of it."""
        self.send(participant, View(self._published.view()))
        self.send(participant, CloseJob())
        self._dismissed.add(participant)

    def serve_until(self, is_done: Callable[[], bool], waiting_for: str) -> None:
        """Take messages, and report at the interval, until it is done. Raises Unavailable when that takes too long."""
        give_up_us = self._clock() + PATIENCE_S * US_PER_S
        while not is_done():
            if self._clock() > give_up_us:
                raise Unavailable(f"{self._plan.id}: waited {PATIENCE_S} s for {waiting_for}", retry_after_s=0)
            for participant, message in self._switchboard.receive((self._next_snapshot_us - self._clock()) / US_PER_S):
                self._take(participant, message)
            if self._clock() >= self._next_snapshot_us:
                self.snapshot()

    def let_go_on(self, participants: Iterable[str]) -> None:
        """Resume who was stopped, and hand out the model they were waiting for."""
        for participant in participants:
            self._processes.resume(participant)
            self.send(participant, Model(self._stopped.pop(participant), self.model))

    def _take(self, participant: str, message: ToCoordinator) -> None:
        self._published.heard(participant, message.execution if isinstance(message, Report) else None)
        match message:
            case Join():
                self.examples[participant] = message.examples
                self._published.join(participant, message.name)
            case Download():
                self._answer_download(participant, message.assignment_id)
            case Result():
                self.send(participant, self._judge(participant, message))
            case Failed():
                self.round.give_up(message.assignment_id)
            case Leave():
                self._published.leave(participant)
                self.dismiss(participant)
            case Closed():
                self.closed.add(participant)
            case Report():
                pass  # heard above

    def _answer_download(self, participant: str, assignment_id: str) -> None:
        """Hand out the model, or stop the process that the plan wants stopped, while it waits for it."""
        if participant in self._plan.incidents.suspended_in(self.round.number):
            self._processes.suspend(participant)
            self._stopped[participant] = assignment_id
        else:
            self.send(participant, Model(assignment_id, self.model))

    def _judge(self, participant: str, result: Result) -> Verdict:
        try:
            self.round.deliver(result)
        except PageRefusal as refusal:
            self.refused.add(participant)
            return Verdict(result.assignment_id, refusal.code, str(refusal))
        return Verdict(result.assignment_id)
