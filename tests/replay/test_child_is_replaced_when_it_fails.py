"""The warm child and its limits: whatever a child does, the job gets its verdict and the next job works."""

import os
import stat
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from service.replay import ReplayEngine
from service.replay.engine import EngineClosed
from service.replay.process import child_environment, resident_bytes
from service.settings import Settings
from tests.replay.package import demo_job

SAYS_HELLO = """
import os, sys, time, msgspec
from service.replay.frames import Hello, LostDevice
def send(content):
    os.write(1, len(content).to_bytes(8, "little") + content)
def wait_for_a_job():
    size = int.from_bytes(sys.stdin.buffer.read(8), "little")
    sys.stdin.buffer.read(size)
send(msgspec.msgpack.encode(Hello(None, "a child made for a test", {"pid": str(os.getpid())}, 0.0)))
wait_for_a_job()
"""

Open = Callable[..., ReplayEngine]


@pytest.fixture
def open_engine(tmp_path: Path) -> Iterator[Open]:
    """Engines in a folder of their own; without `program`, the real child without a GPU."""
    engines = []

    def open_one(program: str | None = None, **settings: float) -> ReplayEngine:
        command: tuple[str, ...] = (sys.executable, "-m", "service.replay.child", "--without-gpu", "not in this test")
        if program is not None:
            path = tmp_path / "child.py"
            path.write_text(SAYS_HELLO + textwrap.dedent(program))
            command = (sys.executable, str(path))
        engines.append(ReplayEngine(Settings(data=str(tmp_path), **settings), command=command))  # type: ignore[arg-type]
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


def pid_of(engine: ReplayEngine) -> str:
    return engine.adapters().libraries["pid"]


def test_a_job_is_judged_in_the_child_and_the_child_stays(open_engine: Open) -> None:
    engine = open_engine()
    first, second = engine.judge(demo_job()), engine.judge(demo_job("digits-cnn"))
    assert (first.verdict, first.engine, second.verdict) == ("reproduced", "reference", "reproduced")
    assert first.engine_reason == "not in this test"


def test_a_child_that_hangs_is_ended_at_the_wall_limit(open_engine: Open) -> None:
    engine = open_engine("time.sleep(600)", replay_wall_s=0.3)
    before = pid_of(engine)
    found = engine.judge(demo_job())
    assert (found.verdict, found.code) == ("refused", "wall_limit")
    assert "0.3 s" in (found.reason or "")
    assert found.digests["checkpoint"] == demo_job().checkpoint_sha256
    assert pid_of(engine) != before


def test_a_child_that_takes_too_much_memory_is_ended(open_engine: Open) -> None:
    if resident_bytes(os.getpid()) is None:
        pytest.skip("this system does not tell a process's memory")
    engine = open_engine("hoard = bytearray(400 * 1024 * 1024)\ntime.sleep(600)", replay_memory_bytes=300 * 1024 * 1024)
    found = engine.judge(demo_job())
    assert (found.verdict, found.code) == ("refused", "memory_limit")


@pytest.mark.parametrize(
    ("program", "code", "word"),
    [
        ("sys.stderr.write('the driver is gone'); os._exit(3)", "child_died", "exit code 3"),
        ("os.kill(os.getpid(), 11)", "child_died", "exit code -11"),
        ("send(b'no msgpack')\ntime.sleep(600)", "protocol_error", "no answer"),
        ("os.write(1, b'\\xff' * 8)\ntime.sleep(600)", "protocol_error", "18446744073709551615 bytes"),
        ("os.write(1, (2**40).to_bytes(8, 'little'))\ntime.sleep(600)", "protocol_error", "1099511627776 bytes"),
        ("os.write(1, (100).to_bytes(8, 'little') + b'cut')\nos._exit(0)", "child_died", "exit code 0"),
        ("send(msgspec.msgpack.encode(LostDevice('Parent device is lost')))", "device_lost", "Parent device is lost"),
    ],
)
def test_a_child_that_fails_gives_a_verdict_and_is_replaced(
    open_engine: Open, program: str, code: str, word: str
) -> None:
    engine = open_engine(program)
    before = pid_of(engine)
    found = engine.judge(demo_job())
    assert (found.verdict, found.code) == ("cannot-run", code)
    assert word in (found.reason or "")
    assert pid_of(engine) != before


def test_the_end_of_what_the_child_printed_is_kept(open_engine: Open) -> None:
    found = open_engine("sys.stderr.write('x' * 9000 + 'the driver is gone'); os._exit(3)").judge(demo_job())
    assert found.diagnostics is not None
    assert found.diagnostics.endswith("the driver is gone")
    assert len(found.diagnostics) <= 4096


def test_spent_processor_time_is_a_refusal(open_engine: Open) -> None:
    if sys.platform == "win32":
        pytest.skip("no limit on processor time here")
    found = open_engine("os.kill(os.getpid(), 24)").judge(demo_job())
    assert (found.verdict, found.code) == ("refused", "processor_limit")


def test_two_replays_at_once_do_not_touch_each_other(open_engine: Open) -> None:
    engine = open_engine()
    jobs = [demo_job(rows=rows) for rows in (3, 5, 7, 9)]
    alone = [engine.judge(job).output_sha256 for job in jobs]
    together: dict[int, dict[str, str]] = {}
    threads = [
        threading.Thread(target=lambda at=at: together.update({at: engine.judge(jobs[at]).output_sha256}))
        for at in range(len(jobs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[at] for at in range(len(jobs))] == alone


def test_closing_gives_up_a_running_job_without_a_verdict(open_engine: Open, tmp_path: Path) -> None:
    began = tmp_path / "began"
    os.mkfifo(began)
    engine = open_engine(f"open({str(began)!r}, 'w').close()\ntime.sleep(600)")
    given_up: list[BaseException] = []

    def judge() -> None:
        try:
            engine.judge(demo_job())
        except EngineClosed as error:
            given_up.append(error)

    thread = threading.Thread(target=judge)
    thread.start()
    began.open().close()  # returns when the child has the job
    engine.close()
    thread.join()
    assert len(given_up) == 1


def test_the_child_knows_drivers_and_none_of_our_secrets(tmp_path: Path) -> None:
    ours = {
        "PATH": "/bin", "VK_DRIVER_FILES": "/x.json", "WGPU_BACKEND_TYPE": "Vulkan", "AWS_SECRET_ACCESS_KEY": "s3cret",
        "RETRACE_DATABASE_URL": "postgresql://u:s3cret@db",
    }  # fmt: skip
    given = child_environment(ours, tmp_path / "runtime", tmp_path / "cache")
    assert "s3cret" not in str(given)
    assert (given["VK_DRIVER_FILES"], given["WGPU_BACKEND_TYPE"]) == ("/x.json", "Vulkan")
    assert given["MESA_SHADER_CACHE_DIR"] == str(tmp_path / "cache")
    assert given["OPENBLAS_NUM_THREADS"] == "1"


def test_the_child_runs_in_an_empty_folder_with_a_private_runtime_folder(open_engine: Open, tmp_path: Path) -> None:
    told = tmp_path / "told"
    engine = open_engine(
        f"""
        runtime = os.environ["XDG_RUNTIME_DIR"]
        open({str(told)!r}, "w").write(msgspec.json.encode([os.listdir("."), os.stat(runtime).st_mode]).decode())
        os._exit(0)
        """
    )
    engine.judge(demo_job())
    listed, mode = msgspec.json.decode(told.read_bytes())
    assert listed == []
    assert stat.S_IMODE(mode) == 0o700
