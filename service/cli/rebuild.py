"""`retrace rebuild`: fold the views and the lake anew from the stored events, and say how far it is.

Both are made beside what is there and then take its place, so an interrupted rebuild changes nothing. The service must
not run on the folder meanwhile.
"""

import argparse
import shutil

from rich.progress import Progress

from analytics.lake import FOLDER, Lake
from service.cli.options import add_data, add_json, settings_from
from service.cli.output import answers, notices, print_json
from service.projections import Views
from service.projections.runner import BATCH_EVENTS
from service.projections.views import FILE_NAME
from service.settings import Settings
from service.store import EventStore


def configure(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    with EventStore.open(settings) as store:
        head = store.head()
        _fold(settings, store, head)
    if arguments.json:
        print_json({"position": head})
    else:
        answers.print(f"rebuilt views and lake from {head} events")
    return 0


def _fold(settings: Settings, store: EventStore, head: int) -> None:
    """Fold every event into new views and a new lake, then swap."""
    new_views, new_lake = settings.folder / f"{FILE_NAME}.new", settings.folder / f"{FOLDER}.new"
    _remove_views(settings, new_views.name)
    shutil.rmtree(new_lake, ignore_errors=True)
    views = Views.open(settings, path=new_views)
    lake = Lake.open(new_lake)
    with Progress(console=notices) as progress:
        task = progress.add_task("rebuilding", total=head)
        while events := store.read(views.position(), BATCH_EVENTS):
            progress.update(task, completed=views.apply(events))
            lake.feed(events)
    lake.seal()
    lake.close()
    views.close()
    _remove_views(settings, FILE_NAME)
    new_views.replace(settings.folder / FILE_NAME)
    shutil.rmtree(settings.folder / FOLDER, ignore_errors=True)
    new_lake.replace(settings.folder / FOLDER)


def _remove_views(settings: Settings, name: str) -> None:
    """Remove a views file with SQLite's files beside it."""
    for path in settings.folder.glob(f"{name}*"):
        if path.name in (name, f"{name}-wal", f"{name}-shm"):
            path.unlink()
