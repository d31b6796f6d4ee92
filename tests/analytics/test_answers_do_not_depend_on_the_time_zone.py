"""F10: the same bytes whatever zone the host is in, over a change of daylight saving time."""

import os
import subprocess
import sys

PROGRAM = """
import sys, tempfile
from pathlib import Path
from analytics.answers import write_answer
from analytics.lake import Lake
from analytics.questions import ask, find_question
from tests.analytics.history import PAGE, History, participant
history = History()
spring_us = 1774746000  # 2026-03-29T01:00:00Z, when Europe changes its clocks
for step in range(6):
    word = participant("p1", local=True, backend="webgpu", computeOnlySamplesPerSecond=step)
    history.state(at_s=spring_us - 1764565200 + step * 600, recorder=PAGE, participants=[word])
with tempfile.TemporaryDirectory() as folder:
    lake = Lake.open(Path(folder), segment_events=3)
    lake.feed(history.events[:4])
    lake.feed(history.events[4:])
    for name in ("speed-by-backend", "stale-episodes", "run-overview"):
        given = {"job": "j1"} if name != "run-overview" else {}
        table = ask(find_question(name), given, lake).table
        for form in ("json", "csv"):
            sys.stdout.buffer.write(b"".join(write_answer(table, form)))
    lake.close()
"""


def answers_in(zone: str) -> bytes:
    environment = {**os.environ, "TZ": zone}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True).stdout


def test_answers_are_the_same_bytes_in_every_zone() -> None:
    wanted = answers_in("UTC")
    assert b"2026-03-29T01:00:00.000000Z" in wanted
    assert answers_in("Asia/Kolkata") == answers_in("America/St_Johns") == wanted
