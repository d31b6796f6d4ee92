"""`retrace demo` from beginning to end: start, train, look back, replay, verify, report. The one place that knows all.

Returns 0 when everything that must show was found in the record, 1 otherwise; either way it says what it found.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import msgspec

from service.audit.verify import verify_folder
from service.cli.output import answers, notices
from service.demo.coordinator import Coordinator, Surroundings
from service.demo.crew import Crew
from service.demo.data_folder import fresh_folder
from service.demo.desk import Wires
from service.demo.job_plan import JOBS, PARTICIPANTS, SITE
from service.demo.lookback import JobFound, Question, ask, look_back
from service.demo.package_builder import build_package
from service.demo.picture import draw
from service.demo.replays import ReplaysFound, replay_all
from service.demo.report import Found, LogFound, print_found, shortcomings, write_summary
from service.demo.rest import Rest
from service.demo.service_process import ServiceProcess
from service.demo.shards import dirichlet_shards, load_digits, split
from service.domain.times import system_clock
from service.recording.client import Recorder
from service.settings import Settings

QUESTION = "stale-episodes"
HTTP_TIMEOUT_S = 60.0


class Stopwatch:
    """How long each part took, in seconds, in the order in which the parts ended."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Say what is being done, and time the block under its name."""
        notices.print(f"demo: {name} …")
        started_s = time.monotonic()
        yield
        self.parts[name] = round(time.monotonic() - started_s, 3)
        notices.print(f"demo: {name} took {self.parts[name]:.1f} s")


class Seen(msgspec.Struct, frozen=True):
    """What was found out while the service ran, and the tree head that was kept after the training."""

    jobs: list[JobFound]
    question: Question
    replays: ReplaysFound
    remembered_head: str


def run_demo(settings: Settings, seed: int) -> int:
    """The whole demo into the data folder of the settings; one seed gives one set of checkpoints. The exit code.

    Raises SetupError when the folder is somebody else's or digits are not installed, Unavailable when a process ends
    on its own.
    """
    # As Ctrl-C does: leave through the contexts, so that no process of the demo stays behind, stopped or running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    watch = Stopwatch()
    folder = fresh_folder(settings)
    with ServiceProcess(settings) as service:
        _train(service, seed, watch)
        seen = _find_out(service, watch)
        with watch.part("stop"):
            service.stop()
    with watch.part("verify"):
        report = verify_folder(settings, since=seen.remembered_head)
    log = LogFound(report.size, report.root or "", report.is_sound, [finding.sentence for finding in report.findings])
    found = Found(seen.jobs, seen.replays, log, seen.question, watch.parts)
    print_found(found)
    path = write_summary(found, folder)
    picture = draw(found.jobs, folder)
    reasons = shortcomings(found)
    for reason in reasons:
        answers.print(f"NOT as it must be: {reason}", style="red", markup=False)
    answers.print(f"Summary: {path}")
    answers.print(f"Picture: {picture or 'none, as vl-convert is not installed'}")
    answers.print(f"Look around: retrace serve --data {settings.data}")
    return 1 if reasons else 0


def _train(service: ServiceProcess, seed: int, watch: Stopwatch) -> None:
    """Three jobs, one after the other, by six processes that stay the same."""
    with ExitStack() as until_the_end:
        with watch.part("start"):
            package = build_package()
            training, validation = split(load_digits(), seed)
            shards = dirichlet_shards(training, len(PARTICIPANTS), seed)
            crew = until_the_end.enter_context(Crew(shards, JOBS[0], seed, service.url))
            service.wait_until_ready()
        wires = Wires(crew.switchboard, crew.suspender, system_clock)
        around = Surroundings(PARTICIPANTS, wires, package, validation, seed)
        for plan in JOBS:
            with watch.part(plan.id):
                Coordinator(plan, around, Recorder(service.url, SITE, plan.id)).run()


def _find_out(service: ServiceProcess, watch: Stopwatch) -> Seen:
    with httpx.Client(base_url=service.url, timeout=HTTP_TIMEOUT_S) as client:
        rest = Rest(client)
        with watch.part("look back"):
            remembered_head = rest.text("/log/checkpoint")
            jobs = look_back(rest, up_to=rest.get("/health")["head"])
            question = ask(rest, QUESTION)
        with watch.part("replay"):
            replays = replay_all(rest, jobs)
    return Seen(jobs, question, replays, remembered_head)
