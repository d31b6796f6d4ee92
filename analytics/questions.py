"""Questions in SQL files: what is asked, with which parameters, how to read the answer, how to draw it.

A file begins with a header of comment lines `-- key: text`: `question`, any number of `parameter: NAME TYPE [= DEFAULT]
WORDS`, `read`, optionally `chart`. Types are text, integer, number and moment (RFC 3339). Parameters are bound to
`$name` in the SQL, never pasted into it.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import duckdb
import msgspec
import pyarrow as pa

from analytics.lake import Lake
from analytics.rows import moment
from service.domain.times import parse_rfc3339
from service.errors import InvalidField, MalformedQuestion, QuestionNotFound, UnknownParameter

SHIPPED = Path(__file__).parent / "questions"
Type = Literal["text", "integer", "number", "moment"]
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_HEADER = re.compile(r"-- (question|parameter|read|chart): (.+)")
_PARAMETER = re.compile(r"([a-z][a-z0-9_]*) (text|integer|number|moment)(?: = (\S+))?(?: {2,}| +)(\S.*)")
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_CHART_PART = re.compile(r"(mark|x|y|color|series)=(\w+)")


class Parameter(msgspec.Struct, frozen=True):
    """One parameter. Without a default it must be given; the default `null` means that it may be left out."""

    name: str
    type: Type
    words: str
    default: str | None = None

    @property
    def is_required(self) -> bool:
        """Whether asking without it is refused."""
        return self.default is None

    def read(self, text: str) -> Any:
        """The value that DuckDB is given. Raises InvalidField for text that is not of the type."""
        if self.type == "text":
            return text
        if self.type == "moment":
            return moment(parse_rfc3339(text, self.name))
        written = _INTEGER if self.type == "integer" else _NUMBER
        value = (int if self.type == "integer" else float)(text) if written.fullmatch(text) else math.inf
        if not math.isfinite(value):
            raise InvalidField(f"{self.name}: got {text[:64]!r}, wanted a finite {self.type}", path=self.name)
        return value


class Question(msgspec.Struct, frozen=True):
    """One question file, read."""

    name: str
    question: str
    parameters: list[Parameter]
    read: str
    chart: dict[str, str] | None
    sql: str


class Answer(msgspec.Struct, frozen=True):
    """A question's rows, and as of which position they were computed."""

    question: Question
    table: pa.Table
    position: int


def list_questions(*folders: Path) -> list[Question]:
    """Every question of the shipped folder and of `folders`, by name. Raises MalformedQuestion naming the file."""
    found = {path.stem: path for folder in (SHIPPED, *folders) for path in sorted(folder.glob("*.sql"))}
    return [read_question(found[name]) for name in sorted(found)]


def find_question(name: str, *folders: Path) -> Question:
    """The question with this name. Raises QuestionNotFound with the names there are."""
    for folder in (*folders, SHIPPED):
        path = folder / f"{name}.sql"
        if _NAME.fullmatch(name) and path.is_file():
            return read_question(path)
    names = [question.name for question in list_questions(*folders)]
    raise QuestionNotFound(f"no question {name[:80]!r}; there are {', '.join(names)}", questions=names)


def read_question(path: Path) -> Question:
    """A question file. Raises MalformedQuestion naming file and line."""
    header: dict[str, list[str]] = {}
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("--"):
            break
        match = _HEADER.fullmatch(line)
        if match is None:
            raise MalformedQuestion(f"{path.name}:{number}: wanted `-- question|parameter|read|chart: …`")
        header.setdefault(match.group(1), []).append(match.group(2))
    if not {"question", "read"} <= header.keys():
        raise MalformedQuestion(f"{path.name}: the header has no `-- question: …` or no `-- read: …`")
    parameters = [_parameter(path, words) for words in header.get("parameter", [])]
    chart = dict(_CHART_PART.findall(header["chart"][0])) if "chart" in header else None
    return Question(path.stem, " ".join(header["question"]), parameters, " ".join(header["read"]), chart, text)


def _parameter(path: Path, words: str) -> Parameter:
    match = _PARAMETER.fullmatch(words)
    if match is None:
        raise MalformedQuestion(f"{path.name}: parameter {words!r}: wanted NAME TYPE [= DEFAULT] WORDS")
    name, kind, default, meaning = match.groups()
    return Parameter(name, kind, meaning, default)  # type: ignore[arg-type]


def ask(question: Question, given: Mapping[str, str], lake: Lake) -> Answer:
    """The answer to a question, up to the newest position of the lake.

    Raises UnknownParameter for one that the question does not have, InvalidField for one missing or not of its type.
    """
    values = _bind(question, given)
    with lake.look() as look:
        try:
            table = look.cursor.sql(question.sql, params=values).to_arrow_table()
        except duckdb.Error as error:
            raise MalformedQuestion(f"question {question.name}: {error}") from error
    return Answer(question, table, look.position)


def _bind(question: Question, given: Mapping[str, str]) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in question.parameters}
    for name in given:
        if name not in known:
            raise UnknownParameter(
                f"question {question.name} has no parameter {name[:80]!r}; it has {', '.join(known) or 'none'}",
                parameter=name[:80], allowed=sorted(known),
            )  # fmt: skip
    return {name: _value(question, parameter, given.get(name)) for name, parameter in known.items()}


def _value(question: Question, parameter: Parameter, text: str | None) -> Any:
    if text is not None:
        return parameter.read(text)
    if parameter.default is None:
        raise InvalidField(
            f"question {question.name} needs {parameter.name} ({parameter.type}): {parameter.words}",
            path=parameter.name,
        )  # fmt: skip
    return None if parameter.default == "null" else parameter.read(parameter.default)
