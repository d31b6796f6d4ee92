"""The demo's data folder: always a fresh one, and never at the price of data that somebody else recorded.

Job ids and seed are the same on each run, so two runs in one folder would tell one muddled story. The folder of the run
before is kept once, beside the new one, as `<name>.previous`.
"""

import shutil
from pathlib import Path

from service.demo.job_plan import JOBS
from service.domain.identifiers import job_stream
from service.errors import SetupError
from service.settings import Settings
from service.store import EventStore
from service.store.folder_lock import FolderLock

READ_EVENTS = 1000
MARKER_NAME = "written-by-retrace-demo"
MARKER_TEXT = "`retrace demo` made this folder and may put it aside on its next run. Delete this file to keep it.\n"


def fresh_folder(settings: Settings) -> Path:
    """An empty folder with the demo's marker in it.

    Raises SetupError when the folder holds what the demo did not write, DataFolderInUse when a service runs on it.
    """
    folder = settings.folder
    if folder.exists() and any(folder.iterdir()):
        _put_aside(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER_NAME).write_text(MARKER_TEXT)
    return folder


def _put_aside(folder: Path) -> None:
    previous = folder.with_name(f"{folder.name}.previous")
    for taken in (folder, previous):
        if taken.exists() and not (taken / MARKER_NAME).exists():
            raise SetupError(f"{taken} holds data that is not the demo's; choose another folder with --data DIR")
    FolderLock(folder).release()  # refuses while a service works in there
    if previous.exists():
        _remove(previous)
    folder.rename(previous)


def _remove(folder: Path) -> None:
    """Delete an old run. Somebody may have gone on recording into it with `retrace serve`: then it stays."""
    foreign = _foreign_streams(folder)
    if foreign:
        raise SetupError(f"{folder} also holds {', '.join(foreign[:3])}: move it away, or choose another --data DIR")
    shutil.rmtree(folder)


def _foreign_streams(folder: Path) -> list[str]:
    """Streams of jobs and artifacts that are not the demo's."""
    if not (folder / "events.sqlite").exists():
        return []
    own = {job_stream(plan.id) for plan in JOBS}
    streams: set[str] = set()
    with EventStore.open(Settings(data=str(folder)), read_only=True) as store:
        after = 0
        while events := store.read(after, READ_EVENTS):
            streams |= {stored.event.stream for stored in events}
            after = events[-1].position
    return sorted(stream for stream in streams - own if not stream.startswith("recorder-"))
