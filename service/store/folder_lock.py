"""The exclusive lock on a data folder: two writers on one folder would fork the log."""

import fcntl
import os
from pathlib import Path

from service.errors import DataFolderInUse


class FolderLock:
    """Holds `<folder>/lock` (flock) until released or until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises DataFolderInUse, naming the process that holds it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise DataFolderInUse(
                f"{folder} is in use by process {holder}; stop it, or name another folder with --data",
                folder=str(folder), process=holder,
            ) from None  # fmt: skip
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back. Doing it twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
