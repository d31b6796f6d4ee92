"""F40: nobody waits for a lock and nobody is refused one: two processes ask the same lake while this one feeds it."""

import json
import subprocess
import sys
from pathlib import Path

from analytics.lake import Lake
from tests.analytics.history import History

ASKER = """
import json, sys
from pathlib import Path
from analytics.answers import rows
from analytics.lake import Lake
from analytics.questions import ask, find_question
seen = []
for _ in range(20):
    lake = Lake.open(Path(sys.argv[1]))
    [row] = rows(ask(find_question("run-overview"), {}, lake).table)
    seen.append((lake.position(), row[-2]))
    lake.close()
print(json.dumps(seen))
"""


def test_two_processes_ask_while_a_third_feeds(tmp_path: Path) -> None:
    history = History()
    for step in range(1500):
        history.state(at_s=step)
    lake = Lake.open(tmp_path, segment_events=5)
    lake.feed(history.events[:5])
    command = [sys.executable, "-c", ASKER, str(tmp_path)]
    askers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for at in range(5, len(history.events), 5):
        lake.feed(history.events[at : at + 5])
        if all(asker.poll() is not None for asker in askers):
            break
    lake.close()
    for asker in askers:
        told, _ = asker.communicate()
        assert asker.returncode == 0
        seen = json.loads(told)
        assert len(seen) == 20
        assert all(position == events for position, events in seen), "each answer is complete up to its own position"
