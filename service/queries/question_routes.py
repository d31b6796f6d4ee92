"""The doors of analytics: which questions there are, and the answer to one, by DuckDB over the whole history."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from analytics.answers import FORMATS, json_value, rows, write_answer
from analytics.lake import Lake
from analytics.questions import Answer, Question, ask, find_question, list_questions
from service.errors import Unavailable
from service.queries.parameters import ANY_PARAMETER, one_of
from service.queries.responses import Asked, answer
from service.settings import Settings
from service.store import EventStore

OWN_QUESTIONS = "questions"
"""Folder below the data folder whose `*.sql` files are questions too."""
CATCH_UP_S = 10.0
Format = Annotated[str | None, QueryParameter(name="format")]


@get("/v1/questions", sync_to_thread=True)
def get_questions(request: Asked, settings: NamedDependency[Settings]) -> Response[bytes]:
    """Every question with its words and parameters, by name."""
    found = list_questions(settings.folder / OWN_QUESTIONS)
    return answer(request, {"questions": [_described(question) for question in found]})


@get("/v1/questions/{name:str}", sync_to_thread=True, opt={ANY_PARAMETER: True})
def get_answer(
    request: Asked,
    name: FromPath[str],
    settings: NamedDependency[Settings],
    store: NamedDependency[EventStore],
    lake: NamedDependency[Lake],
) -> Response[Any]:
    """The answer to a question, up to the newest event. Its parameters are query parameters; `format` chooses how."""
    question = find_question(name, settings.folder / OWN_QUESTIONS)
    given = dict(request.query_params)
    form = one_of("format", given.pop("format", "object"), ("object", *FORMATS))
    head = store.head()
    if not lake.wait_for(head, CATCH_UP_S):
        raise Unavailable(
            f"the lake is at position {lake.position()} of {head}; try again, and see GET /health if it stays there",
            retry_after_s=CATCH_UP_S,
        )
    found = ask(question, given, lake)
    if form == "object":
        return answer(request, as_document(found))
    headers = {"retrace-as-of-position": str(found.position), "x-content-type-options": "nosniff"}
    return _streamed(write_answer(found.table, form), FORMATS[form], headers)


def _streamed(pieces: Iterable[bytes], media_type: str, headers: dict[str, str]) -> Response[Any]:
    return Stream(pieces, media_type=media_type, headers=headers)


def as_document(found: Answer) -> dict[str, Any]:
    """An answer with its question: columns with their types, rows as objects."""
    table = found.table
    names = table.column_names
    return {
        **_described(found.question),
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [dict(zip(names, row, strict=True)) for row in rows(table)],
        "as_of_position": found.position,
    }


def _described(question: Question) -> dict[str, Any]:
    return {
        "name": question.name,
        "question": question.question,
        "parameters": [json_value(msgspec.to_builtins(parameter)) for parameter in question.parameters],
        "read": question.read,
        "chart": question.chart,
    }


question_handlers = [get_questions, get_answer]
