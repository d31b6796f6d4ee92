"""SIGKILL in the middle of a load: what was acknowledged is there, once, and everything verifies.

A process appends batches and prints the positions of each batch only after its receipt came. It is killed at a point
that no clock decides: after so many printed batches. Then the store is opened again and the sender, who does not know
which of its last batches arrived, sends everything anew.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.audit.log import TransparencyLog
from service.audit.log_key import LogKey
from service.audit.verify import verify_folder
from service.settings import Settings
from service.store import EventStore
from tests.event_builders import event_id, new_event

BATCH = 20

SENDER = f"""
import sys
from service.settings import Settings
from service.store import EventStore
from tests.event_builders import new_event

store = EventStore.open(Settings(data=sys.argv[1]))
first = int(sys.argv[2])
waiting = []
for batch in range(first, first + 100_000):
    waiting.append((batch, store.append([new_event(batch * {BATCH} + at + 1) for at in range({BATCH})])))
    if len(waiting) > 8:
        number, future = waiting.pop(0)
        print(number, *(receipt.position for receipt in future.result()), flush=True)
"""


def load_until_killed(settings: Settings, first: int, batches: int) -> dict[int, list[int]]:
    """Positions by batch number, as far as the sender had them when it was killed."""
    root = Path(__file__).parent.parent.parent
    acknowledged: dict[int, list[int]] = {}
    with subprocess.Popen(
        [sys.executable, "-c", SENDER, settings.data, str(first)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as sender:
        assert sender.stdout is not None
        for line in sender.stdout:
            if not line.endswith("\n"):
                break  # the kill cut it
            number, *positions = map(int, line.split())
            acknowledged[number] = positions
            if len(acknowledged) == batches:
                sender.send_signal(signal.SIGKILL)
    assert sender.returncode == -signal.SIGKILL
    return acknowledged


@pytest.mark.parametrize("batches", [1, 25])
def test_acknowledged_events_survive_a_kill_once(tmp_path: Path, batches: int) -> None:
    settings = Settings(data=str(tmp_path))
    acknowledged: dict[int, list[int]] = {}
    for _ in range(2):
        acknowledged |= load_until_killed(settings, len(acknowledged), batches)
    with EventStore.open(settings) as store:
        for number, positions in acknowledged.items():
            ids = [event_id(number * BATCH + at + 1) for at in range(BATCH)]
            assert [store.read_one(position).event.id for position in positions] == ids
        head = store.head()
        assert [event.position for event in store.read(limit=head + 1)] == list(range(1, head + 1))
        for number, positions in acknowledged.items():
            again = store.append([new_event(number * BATCH + at + 1) for at in range(BATCH)]).result(timeout=60)
            assert [receipt.position for receipt in again] == positions
        assert store.head() == head
        log = TransparencyLog(store, LogKey.open(settings.folder, settings.log_origin), settings.log_origin)
        note = log.signed_head()
    report = verify_folder(settings, note)
    assert report.is_sound
    assert report.events == head
