"""The demo's training in one process: threads for processes, queues for pipes, a notebook for the network."""

import queue
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest

from service.demo.coordinator import Coordinator, Surroundings
from service.demo.desk import Wires
from service.demo.job_plan import PARTICIPANTS, SITE, WANTS_GPU, JobPlan
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
from service.domain.times import Clock
from service.recording.client import Recorder

BREATH_S = 0.005


class Notebook:
    """What a service would be sent by one page's recorder, kept in memory in the order of arrival."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.artifacts: list[tuple[str, int | None, bytes]] = []

    def open_recorder(self, job: str, clock: Clock) -> Recorder:
        """The real recorder, with this notebook where the network would be."""
        return Recorder("http://retrace.test", SITE, job, clock=clock, transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.events += [msgspec.json.decode(line) for line in request.content.splitlines()]
        else:
            sha256, label = request.url.path.rpartition("/")[2], request.url.params
            assert sha256_hex(request.content) == sha256
            number = int(label["round"]) if "round" in label else None
            self.artifacts.append((label["role"], number, request.content))
        return httpx.Response(201, json={"receipts": [], "head": 0})

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
    pages = {page: Notebook() for page in ("owner", *PARTICIPANTS)}
    failures: list[BaseException] = []

    def live(number: int, participant: str) -> None:
        person = Person(
            participant, f"Participant {number}", number, seed, plan.training, participant == WANTS_GPU,
            plan.snapshot_interval_ms,
        )  # fmt: skip
        machine = Machine(
            switchboard.links[participant], lambda job: pages[participant].open_recorder(job, clock),
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
    digests = Coordinator(plan, around, pages["owner"].open_recorder(plan.id, clock)).run()
    for participant in PARTICIPANTS:
        switchboard.send(participant, Shut())
    for thread in threads:
        thread.join(timeout=30)
    assert not failures
    return Played(digests, pages)


@pytest.fixture(scope="session")
def play_job() -> Callable[[JobPlan, int], Played]:
    """Play a job; of equal plan and seed only once in a session."""
    played: dict[bytes, Played] = {}

    def play_once(plan: JobPlan, seed: int) -> Played:
        key = msgspec.json.encode((plan, seed))
        if key not in played:
            played[key] = play(plan, seed)
        return played[key]

    return play_once


@pytest.fixture(scope="session")
def play_afresh() -> Callable[[JobPlan, int], Played]:
    """Play a job, although it may have been played before."""
    return play
