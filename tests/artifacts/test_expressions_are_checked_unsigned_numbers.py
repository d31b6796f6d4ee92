"""The manifest's expression language: exact unsigned 64-bit arithmetic, or an error that names the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.artifacts.expressions import ExpressionError, compile_expression, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("batch*256*4", 8192),
        ("ceilDiv(64,32)", 2),
        ("ceilDiv(batch, 3)", 3),
        ("batch/8", 1),
        ("2 + 3 * 4 - 1", 13),
        ("(2 + 3) * 4", 20),
        ("20 - 4 - 3", 13),
        ("20 / 2 / 5", 2),
        ("max(min(3, batch), 2)", 3),
        ("18446744073709551615", 2**64 - 1),
        ("(" * 15 + "batch" + ")" * 15, 8),
    ],
)
def test_an_expression_has_the_value_that_arithmetic_gives_it(text: str, value: int) -> None:
    assert evaluate(text, {"batch": 8}) == value


def test_a_number_is_an_expression() -> None:
    assert evaluate(7, {}) == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("batch - 9", "-1 is no unsigned 64-bit number"),
        ("batch - 9 + 9", "-1 is no unsigned 64-bit number"),
        ("18446744073709551615 + 1", "18446744073709551616 is no unsigned 64-bit number"),
        ("99999999999999999999", "99999999999999999999 is no unsigned 64-bit number"),
        ("7 / 2", "7 / 2 is no whole number; ceilDiv rounds up"),
        ("7 / 0", "7 / 0 is no whole number"),
        ("ceilDiv(7, 0)", "ceilDiv(7, 0) has no value"),
        ("rows", "symbol 'rows' is not known; known: ['batch']"),
        ("2 ** 3", "column 4: wanted a number, a symbol or ("),
        ("1 +", "column 4: wanted a number"),
        ("(1", "column 3: wanted )"),
        ("1 2", "column 2: wanted an operator or the end"),
        ("min(1)", "wanted ,"),
        ("-1", "column 1: wanted a number"),
        ("", "column 1: wanted a number"),
        ("1.5", "wanted an operator or the end"),
        ("__import__('os')", "wanted an operator or the end"),
        ("batch.bit_length()", "wanted an operator or the end"),
        ("(" * 16 + "1" + ")" * 16, "nests deeper than 16"),
        ("1" * 201, "201 characters, wanted at most 200"),
        ("٣", "column 1: wanted a number"),
    ],
)
def test_what_has_no_value_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as refusal:
        evaluate(text, {"batch": 8})
    assert reason in str(refusal.value)


def test_symbols_are_known_before_they_have_values() -> None:
    assert compile_expression("ceilDiv(batch * rows, max(batch, 2))").symbols == {"batch", "rows"}


@given(st.text("0123456789batch+-*/(), maxineDvl", max_size=60))
def test_any_text_gives_a_number_in_range_or_an_error(text: str) -> None:
    try:
        value = evaluate(text, {"batch": 8})
    except ExpressionError:
        return
    assert 0 <= value < 2**64


numbers = st.integers(0, 2**40)


@given(numbers, numbers, numbers.filter(bool))
def test_values_agree_with_exact_arithmetic(one: int, other: int, divisor: int) -> None:
    assert evaluate(f"{one} + {other} * 3", {}) == one + other * 3
    assert evaluate(f"ceilDiv({one}, {divisor})", {}) == -(-one // divisor)
    assert evaluate(f"max({one}, {other}) - min({one}, {other})", {}) == abs(one - other)
