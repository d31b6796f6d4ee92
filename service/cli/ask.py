"""`retrace ask`: a question over the whole history, answered by DuckDB. Works beside a running service.

Without a name it lists the questions. The lake's segments are read as they are and completed in memory up to the
newest event; nothing is written.
"""

import argparse
import sys

from analytics.answers import FORMATS, rows, write_answer
from analytics.lake import FOLDER, Lake, catch_up
from analytics.questions import Answer, ask, find_question, list_questions
from service.cli.options import add_data, add_json, settings_from
from service.cli.output import answers, print_json, print_table
from service.errors import InvalidField
from service.queries.question_routes import OWN_QUESTIONS, as_document
from service.settings import Settings
from service.store import EventStore

NEVER = sys.maxsize
"""Events to seal after: this process only looks, the service seals."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the question; without it, the list of questions")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter; repeatable")
    parser.add_argument("--format", choices=("table", *FORMATS), default="table", help="how to print (default: table)")
    add_data(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    if arguments.name is None:
        _list(settings, arguments.json)
        return 0
    found = _ask(settings, arguments.name, dict(_pair(text) for text in arguments.param))
    if arguments.json:
        print_json(as_document(found))
    elif arguments.format == "table":
        _print(found)
    else:
        for piece in write_answer(found.table, arguments.format):
            sys.stdout.buffer.write(piece)
    return 0


def _list(settings: Settings, as_json: bool) -> None:
    found = list_questions(settings.folder / OWN_QUESTIONS)
    if as_json:
        print_json([{"name": question.name, "question": question.question} for question in found])
        return
    parameters = [", ".join(parameter.name for parameter in question.parameters) for question in found]
    cells = [(q.name, q.question, names) for q, names in zip(found, parameters, strict=True)]
    print_table("", ("question", "in words", "parameters"), cells)


def _ask(settings: Settings, name: str, given: dict[str, str]) -> Answer:
    question = find_question(name, settings.folder / OWN_QUESTIONS)
    with EventStore.open(settings, read_only=True) as store:
        lake = Lake.open(settings.folder / FOLDER, segment_events=NEVER)
        try:
            catch_up(lake, store.read)
            return ask(question, given, lake)
        finally:
            lake.close()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidField(f"--param {text}: wanted NAME=VALUE", path="param")
    return name, value


def _print(found: Answer) -> None:
    print_table(found.question.question, found.table.column_names, list(rows(found.table)))
    answers.print(
        f"{found.question.read}\n[{found.table.num_rows} rows, as of position {found.position}]", markup=False
    )
