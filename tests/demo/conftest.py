"""The demo's training in one process: threads for processes, queues for pipes, lists for recorders, a counted clock."""

import queue
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from service.demo.coordinator import Coordinator, Surroundings
from service.demo.desk import Wires
from service.demo.job_plan import PARTICIPANTS, WANTS_GPU, JobPlan
from service.demo.messages import (
    Shut,
    ToCoordinator,
    ToParticipant,
    decode_for_coordinator,
    decode_for_participant,
    encode,
)
from service.demo.package_builder import build_package
from service.demo.participant import GpuAnswer, Machine, Participant, Person
from service.demo.shards import dirichlet_shards, load_digits, split
from service.domain.canonical import sha256_hex
from service.domain.events import RECORDER_STARTED, RECORDER_STOPPED
from service.domain.times import Clock

BREATH_S = 0.005


class Notebook:
    """A recorder that keeps everything in memory, in the order in which it was told."""

    def __init__(self, page: str, clock: Clock) -> None:
        self.page = page
        self.clock = clock
        self.events: list[dict[str, Any]] = []
        self.artifacts: list[tuple[str, int | None, bytes]] = []
        self.is_closed = False
        self.record(RECORDER_STARTED, {})

    def record(self, event_type: str, data: Any, causation_id: str | None = None) -> str:
        assert not self.is_closed, f"{self.page} recorded {event_type} after the end of its run"
        event_id = f"{self.page}-{len(self.events) + 1}"
        self.events.append({
            "id": event_id, "at_us": self.clock(), "type": event_type, "data": data, "causation_id": causation_id,
        })  # fmt: skip
        return event_id

    def archive(self, role: str, data: bytes, round_number: int | None = None) -> str:
        self.artifacts.append((role, round_number, data))
        return sha256_hex(data)

    def close(self) -> int:
        self.record(RECORDER_STOPPED, {})
        self.is_closed = True
        return len(self.events)

    def of(self, event_type: str) -> list[Any]:
        return [event["data"] for event in self.events if event["type"] == event_type]


class QueueLink:
    """A participant's end. While it is held, receiving stands still, as in a stopped process."""

    def __init__(self, participant: str, inbox: "queue.Queue[bytes]", office: "queue.Queue[tuple[str, bytes]]") -> None:
        self.participant = participant
        self.inbox = inbox
        self.office = office
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def send(self, message: ToCoordinator) -> None:
        self.office.put((self.participant, encode(message)))

    def receive(self, timeout_s: float) -> ToParticipant | None:
        self.may_go_on.wait()
        try:
            return decode_for_participant(self.inbox.get(timeout=BREATH_S))
        except queue.Empty:
            return None


class QueueSwitchboard:
    """The coordinator's end, and what holds a participant and lets it go."""

    def __init__(self) -> None:
        self.office: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.links = {who: QueueLink(who, queue.Queue(), self.office) for who in PARTICIPANTS}

    def send(self, participant: str, message: ToParticipant) -> None:
        self.links[participant].inbox.put(encode(message))

    def receive(self, timeout_s: float) -> list[tuple[str, ToCoordinator]]:
        try:
            participant, message = self.office.get(timeout=BREATH_S)
        except queue.Empty:
            return []
        return [(participant, decode_for_coordinator(message))]

    def suspend(self, participant: str) -> None:
        self.links[participant].may_go_on.clear()

    def resume(self, participant: str) -> None:
        self.links[participant].may_go_on.set()


class Played:
    """What one job left behind: checkpoint digests, and the notebook of each page (`owner`, `p1` … `p6`)."""

    def __init__(self, digests: list[str], pages: dict[str, Notebook]) -> None:
        self.digests = digests
        self.pages = pages

    def artifacts(self, page: str, role: str) -> dict[int | None, bytes]:
        return {number: data for kind, number, data in self.pages[page].artifacts if kind == role}


def counted_clock() -> Clock:
    """A clock that moves on by one ms whenever somebody looks at it."""
    ticks = count(1_764_565_200_000_000, 1000)
    return lambda: next(ticks)


def play(plan: JobPlan, seed: int) -> Played:
    switchboard, clock = QueueSwitchboard(), counted_clock()
    training, validation = split(load_digits(), seed)
    shards = dirichlet_shards(training, len(PARTICIPANTS), seed)
    pages = {"owner": Notebook("owner", clock)}
    failures: list[BaseException] = []

    def open_recorder(participant: str) -> Callable[[str], Notebook]:
        return lambda job: pages.setdefault(participant, Notebook(participant, clock))

    def live(number: int, participant: str) -> None:
        person = Person(
            participant, f"Participant {number}", number, seed, plan.training, participant == WANTS_GPU,
            plan.snapshot_interval_ms,
        )  # fmt: skip
        machine = Machine(
            switchboard.links[participant], open_recorder(participant),
            lambda: GpuAnswer(True, "Limit 'max_buffer_size' value 1 is better than allowed 0"), clock,
        )  # fmt: skip
        try:
            Participant(person, shards[number - 1], machine).run()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=live, args=item, daemon=True) for item in enumerate(PARTICIPANTS, 1)]
    for thread in threads:
        thread.start()
    around = Surroundings(PARTICIPANTS, Wires(switchboard, switchboard, clock), build_package(), validation, seed)
    digests = Coordinator(plan, around, pages["owner"]).run()
    for participant in PARTICIPANTS:
        switchboard.send(participant, Shut())
    for thread in threads:
        thread.join(timeout=30)
    assert not failures
    return Played(digests, pages)


@pytest.fixture(scope="session")
def play_job() -> Callable[[JobPlan, int], Played]:
    return play
