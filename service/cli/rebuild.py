"""`retrace rebuild`: fold the views and the lake anew from the stored events, and say how far it is.

Both are made beside what is there and then take its place, so an interrupted rebuild changes nothing. The service must
not run on the folder meanwhile (a running one rebuilds its views by `POST /v1/rebuilds`).
"""

import argparse
import shutil

from rich.progress import Progress

from analytics.lake import FOLDER, Lake
from service.cli.options import add_data, add_json, settings_from
from service.cli.output import answers, notices, print_json
from service.projections import Views
from service.projections.runner import BATCH_EVENTS, rebuild
from service.settings import Settings
from service.store import EventStore


def configure(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    with EventStore.open(settings) as store, Progress(console=notices) as progress:
        head = store.head()
        _rebuild_views(settings, store, progress)
        _rebuild_lake(settings, store, progress)
    if arguments.json:
        print_json({"position": head})
    else:
        answers.print(f"rebuilt views and lake from {head} events")
    return 0


def _rebuild_views(settings: Settings, store: EventStore, progress: Progress) -> None:
    task = progress.add_task("views", total=store.head())
    with Views.open(settings) as views:
        rebuild(views, store, settings, progressed=lambda position: progress.update(task, completed=position))


def _rebuild_lake(settings: Settings, store: EventStore, progress: Progress) -> None:
    task = progress.add_task("lake", total=store.head())
    beside, place = settings.folder / f"{FOLDER}.rebuild", settings.folder / FOLDER
    shutil.rmtree(beside, ignore_errors=True)
    lake = Lake.open(beside)
    while events := store.read(lake.position(), BATCH_EVENTS):
        progress.update(task, completed=lake.feed(events))
    lake.seal()
    lake.close()
    shutil.rmtree(place, ignore_errors=True)
    beside.replace(place)
