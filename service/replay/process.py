"""The parent's hold on one replay child: start, send, wait within limits, kill. What the frames mean is not known here.

A thread reads the child's frames and another its stderr, so that waiting never blocks: a child that hangs in its driver
cannot be interrupted, only killed from outside.
"""

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Final

import service
from service.replay.frames import PREFIX_BYTES

LOOK_EVERY_S = 0.05
STDERR_BYTES = 4096
FRAME_BYTES_MAX = 1024 * 1024 * 1024
"""Longest frame that is read from a child: outputs of ad-hoc inference are the longest honest ones."""
END_WITHIN_S = 2.0
COMMAND: Final = (sys.executable, "-m", "service.replay.child")
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "TEMP",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "VIRTUAL_ENV",
)
_PASSED_ON_PREFIXES = (
    "LC_",
    "VK_",
    "WGPU_",
    "MESA_",
    "LIBGL_",
    "LP_",
    "GALLIUM_",
    "NVIDIA_",
    "CUDA_",
    "__GLX_",
    "__EGL_",
)


class ChildEnded(Exception):
    """The child is gone. `exit_code` is negative for the signal that ended it."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"the replay process ended with exit code {exit_code}")
        self.exit_code = exit_code


class TookTooLong(Exception):
    """No answer within the wall limit. The child was killed."""


class NoFrame(Exception):
    """The child wrote a length that no frame has. The child was killed."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"a frame of {size_bytes} bytes, wanted at most {FRAME_BYTES_MAX}")


class UsedTooMuch(Exception):
    """The child's resident memory passed its limit. The child was killed."""

    def __init__(self, resident_bytes: int) -> None:
        super().__init__(f"the replay process holds {resident_bytes} bytes")
        self.resident_bytes = resident_bytes


class ChildProcess:
    """One child with its pipes. Used by one thread at a time; `kill` may come from any."""

    def __init__(self, command: Sequence[str], cache: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="retrace-replay-")
        root = Path(self._folder.name)
        runtime, empty = root / "runtime", root / "empty"
        runtime.mkdir(mode=0o700)
        empty.mkdir()
        cache.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=empty,
            env=child_environment(os.environ, runtime, cache), start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin = self._process.stdin
        self._frames: queue.Queue[bytes | NoFrame | None] = queue.Queue()
        self._stderr = b""
        self._has_closed_output = False
        self._threads = [
            threading.Thread(target=self._read_frames, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def diagnostics(self) -> str | None:
        """The last 4 KB of what the child and its drivers printed."""
        return self._stderr.decode("utf-8", "replace").strip() or None

    def send(self, content: bytes) -> None:
        """Begin to send a frame; a child that does not read it is noticed by `receive`."""
        threading.Thread(target=self._write, args=(content,), daemon=True).start()

    def receive(self, wall_s: float, memory_bytes: int) -> bytes:
        """The next frame. Raises ChildEnded, NoFrame, TookTooLong, UsedTooMuch; after each the child is gone."""
        end_s = monotonic() + wall_s
        while (left_s := end_s - monotonic()) > 0:
            try:
                frame = self._frames.get(timeout=min(LOOK_EVERY_S, left_s))
            except queue.Empty:
                self._look_at_memory(memory_bytes)
                continue
            if frame is None:
                raise ChildEnded(self.close())
            if isinstance(frame, NoFrame):
                self.close()
                raise frame
            return frame
        self.close()
        raise TookTooLong

    def kill(self) -> None:
        """End the child now, whatever it does."""
        self._process.kill()

    def end(self) -> None:
        """Let an idle child end by itself, or kill it."""
        self._stdin.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self.close()

    def close(self) -> int:
        """Kill the child if it still runs, and let go of everything: its exit code."""
        if not self._has_closed_output:  # one that has is on its way out, and its exit code is worth waiting for
            self.kill()
        try:
            code = self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue  # a frame that a dead child will never read
        self._folder.cleanup()
        return code

    def _look_at_memory(self, memory_bytes: int) -> None:
        resident = resident_bytes(self._process.pid)
        if resident is not None and resident > memory_bytes:
            self.close()
            raise UsedTooMuch(resident)

    def _write(self, content: bytes) -> None:
        try:
            self._stdin.write(len(content).to_bytes(PREFIX_BYTES, "little"))
            self._stdin.write(content)
            self._stdin.flush()
        except (BrokenPipeError, ValueError):
            return  # the child is gone or was closed: `receive` says so, with its exit code

    def _read_frames(self, stream: BinaryIO) -> None:
        while len(prefix := stream.read(PREFIX_BYTES)) == PREFIX_BYTES:
            size = int.from_bytes(prefix, "little")
            if size > FRAME_BYTES_MAX:  # the length is a stranger's word: nothing is allocated for it
                self._frames.put(NoFrame(size))
                return
            frame = stream.read(size)
            if len(frame) < size:
                break
            self._frames.put(frame)
        self._has_closed_output = True
        self._frames.put(None)

    def _read_stderr(self, stream: BinaryIO) -> None:
        while part := os.read(stream.fileno(), STDERR_BYTES):
            self._stderr = (self._stderr + part)[-STDERR_BYTES:]


def child_environment(ours: Mapping[str, str], runtime: Path, cache: Path) -> dict[str, str]:
    """What the child gets to know: how to find its libraries and drivers, and none of the service's secrets."""
    passed = {
        name: value
        for name, value in ours.items()
        if name.upper() in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    return passed | {
        "PYTHONPATH": str(Path(next(iter(service.__path__))).parent),
        "XDG_RUNTIME_DIR": str(runtime),
        "MESA_SHADER_CACHE_DIR": str(cache),
        # OpenBLAS's spinning threads and a software driver's workers would fight for the same cores.
        "OPENBLAS_NUM_THREADS": "1",
    }


def resident_bytes(pid: int) -> int | None:
    """Memory that a process holds; None where the system does not tell without help (only Linux does)."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return None
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
