"""The small checked expression language of WGSL manifests: sizes and workgroup counts over symbols such as `batch`.

    expression = term { ("+" | "-") term }
    term       = factor { ("*" | "/") factor }
    factor     = number | symbol | "(" expression ")" | ("ceilDiv" | "max" | "min") "(" expression "," expression ")"

Every intermediate value is an unsigned 64-bit integer: overflow, a negative difference and a division with a remainder
are errors, never a wrapped or rounded number. Texts have at most 200 characters and nest at most 16 deep. There is no
`eval`; a text is compiled once into a postfix program for a stack of numbers.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

LENGTH_MAX = 200
DEPTH_MAX = 16
UINT64_MAX = 2**64 - 1
_TOKEN = re.compile(r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>[-+*/(),]))", re.ASCII)


class ExpressionError(ValueError):
    """A text that is no expression, or one that has no unsigned 64-bit value; the message holds the text."""


class Program(NamedTuple):
    """A compiled expression: postfix `steps` (numbers, symbols, operators by name) and the symbols it reads."""

    text: str
    steps: tuple[int | str, ...]
    symbols: frozenset[str]


def evaluate(expression: int | str, symbols: Mapping[str, int]) -> int:
    """The value, 0 to 2^64-1. Raises ExpressionError for a bad text, an unknown symbol or an impossible value."""
    if isinstance(expression, int):
        return _checked(expression, str(expression))
    program = compile_expression(expression)
    stack: list[int] = []
    for step in program.steps:
        if isinstance(step, int):
            stack.append(step)
        elif step in _OPERATORS:
            right, left = stack.pop(), stack.pop()
            stack.append(_checked(_OPERATORS[step](left, right, expression), expression))
        elif step in symbols:
            stack.append(_checked(symbols[step], expression))
        else:
            raise ExpressionError(f"{expression!r}: symbol {step!r} is not known; known: {sorted(symbols)}")
    return stack.pop()


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Program:
    """The program behind a text. Raises ExpressionError naming the column of what does not fit."""
    if len(text) > LENGTH_MAX:
        raise ExpressionError(f"an expression has {len(text)} characters, wanted at most {LENGTH_MAX}")
    return _Compiler(text).program()


def _checked(value: int, text: str) -> int:
    if not 0 <= value <= UINT64_MAX:
        raise ExpressionError(f"{text!r}: {value} is no unsigned 64-bit number")
    return value


def _exact_quotient(left: int, right: int, text: str) -> int:
    if right == 0 or left % right:
        raise ExpressionError(f"{text!r}: {left} / {right} is no whole number; ceilDiv rounds up")
    return left // right


def _ceil_div(left: int, right: int, text: str) -> int:
    if right == 0:
        raise ExpressionError(f"{text!r}: ceilDiv({left}, 0) has no value")
    return -(-left // right)


_OPERATORS: dict[str, Callable[[int, int, str], int]] = {
    "+": lambda left, right, _: left + right,
    "-": lambda left, right, _: left - right,
    "*": lambda left, right, _: left * right,
    "/": _exact_quotient,
    "ceilDiv": _ceil_div,
    "max": lambda left, right, _: max(left, right),
    "min": lambda left, right, _: min(left, right),
}
_FUNCTIONS = ("ceilDiv", "max", "min")


class _Compiler:
    """Recursive descent over one text; `steps` grows in postfix order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.next = 0
        self.steps: list[int | str] = []
        self.symbols: set[str] = set()

    def program(self) -> Program:
        self.expression(1)
        if self.text[self.next :].strip():
            raise self.error("an operator or the end")
        return Program(self.text, tuple(self.steps), frozenset(self.symbols))

    def expression(self, depth: int) -> None:
        self.chain(("+", "-"), lambda: self.chain(("*", "/"), lambda: self.factor(depth)))

    def chain(self, operators: tuple[str, str], operand: Callable[[], None]) -> None:
        operand()
        while (operator := self.accept(*operators)) is not None:
            operand()
            self.steps.append(operator)

    def factor(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ExpressionError(f"{self.text!r} nests deeper than {DEPTH_MAX}")
        match = _TOKEN.match(self.text, self.next)
        if match is None or match["mark"] not in (None, "("):
            raise self.error("a number, a symbol or (")
        self.next = match.end()
        if match["number"] is not None:
            self.steps.append(_checked(int(match["number"]), self.text))
        elif match["mark"] is not None:
            self.expression(depth + 1)
            self.expect(")")
        elif match["name"] in _FUNCTIONS:
            self.call(match["name"], depth)
        else:
            self.symbols.add(match["name"])
            self.steps.append(match["name"])

    def call(self, function: str, depth: int) -> None:
        self.expect("(")
        self.expression(depth + 1)
        self.expect(",")
        self.expression(depth + 1)
        self.expect(")")
        self.steps.append(function)

    def accept(self, *marks: str) -> str | None:
        match = _TOKEN.match(self.text, self.next)
        if match is None or match["mark"] not in marks:
            return None
        self.next = match.end()
        return match["mark"]

    def expect(self, mark: str) -> None:
        if self.accept(mark) is None:
            raise self.error(mark)

    def error(self, wanted: str) -> ExpressionError:
        return ExpressionError(f"{self.text!r}, column {self.next + 1}: wanted {wanted}")
