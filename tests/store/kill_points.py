"""A load whose writers are killed again and again, at random points; used by the kill tests. Runs as its own process.

    python -m tests.store.kill_points '{"data": "/tmp/x"}' KILLS WRITERS SEED

Each writer is a forked process with a store of its own and a timer that ends it suddenly (SIGALRM without a handler:
nothing is cleaned up, as with SIGKILL). It tells the parent over a pipe which receipts it got. A successor sends the
first batch without a receipt again, not knowing whether it was stored. At the end the parent opens the store and says,
as JSON, how the receipts and the store compare. Forking from a process without threads makes a thousand kills cheap.
"""

import json
import os
import random
import select
import signal
import sys

import msgspec

from service.audit.verify import verify_store
from service.domain.envelope import NewEvent
from service.settings import Settings
from service.store import EventStore
from tests.event_builders import new_event

BATCH = 10
IN_FLIGHT = 4
WRITER_IDS = 1_000_000
"""Room for the event numbers of one writer, so that writers do not share ids."""


class Writer:
    """One place in the load: a process after the other, going on where the receipts end."""

    def __init__(self, number: int, settings: Settings, chance: random.Random) -> None:
        self.number = number
        self.receipts: dict[int, list[int]] = {}
        self._settings = settings
        self._chance = chance
        self._unread = b""
        self.start()

    def start(self) -> None:
        """Fork a process that sends from the first batch without a receipt on."""
        self.pipe, write_end = os.pipe()
        is_early = self._chance.random() < 0.2
        after_s = self._chance.uniform(0.001, 0.15)
        self.process = os.fork()
        if self.process == 0:
            os.close(self.pipe)
            _send_until_killed(self._settings, self.number, len(self.receipts), write_end, after_s, is_early)
        os.close(write_end)

    def listen(self) -> bool:
        """Take receipts from the pipe; False when the process is dead and its receipts are all here."""
        data = os.read(self.pipe, 65_536)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            batch, *positions = json.loads(line)
            self.receipts[batch] = positions
        if data:
            return True
        os.close(self.pipe)
        self._unread = b""  # what the kill cut off was never a receipt
        _, status = os.waitpid(self.process, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGALRM:
            raise RuntimeError(f"writer {self.number} ended by itself with status {status}")
        return False


def _send_until_killed(
    settings: Settings, number: int, first: int, write_end: int, after_s: float, is_early: bool
) -> None:  # fmt: skip
    """The timer runs from the first batch on, or (early) while the store is still being opened."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        if is_early:
            signal.setitimer(signal.ITIMER_REAL, after_s)
        store = EventStore.open(settings)
        if not is_early:
            signal.setitimer(signal.ITIMER_REAL, after_s)
        waiting = []
        for batch in range(first, WRITER_IDS // BATCH):
            waiting.append((batch, store.append(batch_of(number, batch))))
            if len(waiting) == IN_FLIGHT:
                done, future = waiting.pop(0)
                receipts = [done, *(receipt.position for receipt in future.result())]
                os.write(write_end, json.dumps(receipts).encode() + b"\n")
    finally:
        os._exit(1)


def batch_of(number: int, batch: int) -> list[NewEvent]:
    """The events of one batch; the same each time it is sent."""
    first = 1 + number * WRITER_IDS + batch * BATCH
    return [new_event(first + at, stream=f"job-{number}") for at in range(BATCH)]


def run(settings: Settings, kills: int, writers_count: int, seed: int) -> dict[str, int]:
    """Kill so often, then compare receipts and store."""
    chance = random.Random(seed)
    EventStore.open(settings).close()
    writers = [Writer(number, settings, chance) for number in range(writers_count)]
    alive, killed = {writer.pipe: writer for writer in writers}, 0
    while alive:
        for pipe in select.select(list(alive), [], [])[0]:
            if alive[pipe].listen():
                continue
            writer = alive.pop(pipe)
            killed += 1
            if killed + len(alive) < kills:
                writer.start()
                alive[writer.pipe] = writer
    return compare(settings, writers) | {"kills": killed}


def compare(settings: Settings, writers: list[Writer]) -> dict[str, int]:
    """Count what does not fit: each of `lost`, `doubled`, `gaps`, `changed_receipts` and `findings` must be 0."""
    with EventStore.open(settings) as store:
        stored: dict[str, int] = {}
        seen = gaps = 0
        while events := store.read(after=seen):
            gaps += [event.position for event in events] != list(range(seen + 1, seen + 1 + len(events)))
            stored.update((event.event.id, event.position) for event in events)
            seen = events[-1].position
        lost = changed = acknowledged = 0
        for writer in writers:
            for batch, positions in writer.receipts.items():
                sent = batch_of(writer.number, batch)
                acknowledged += len(sent)
                lost += sum(event.id not in stored for event in sent)
                changed += positions != [stored.get(event.id) for event in sent]
                changed += positions != [receipt.position for receipt in store.append(sent).result()]
        findings = verify_store(store, [], [], settings.log_origin).findings_count
        return {
            "acknowledged": acknowledged, "stored": seen, "lost": lost, "doubled": seen - len(stored), "gaps": gaps,
            "changed_receipts": changed, "findings": findings, "head_moved": store.head() - seen,
        }  # fmt: skip


if __name__ == "__main__":
    given, *numbers = sys.argv[1:]
    sys.stdout.write(json.dumps(run(msgspec.json.decode(given, type=Settings), *map(int, numbers))) + "\n")
