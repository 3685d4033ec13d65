"""The meaning of terms: their values over the named values of a row."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any

from deltamark.dataflow.plan.terms import (
    Add,
    And,
    Coalesce,
    Column,
    Constant,
    Equal,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Multiply,
    Not,
    Or,
    Quotient,
    Substring,
    Subtract,
    Table,
    Term,
    Text,
    TextCall,
    When,
)
from deltamark.dataflow.scalars.texts import MEANINGS
from deltamark.dataflow.types import EPOCH, NULL, pack_short, unpack_short


def ordered(value: Any) -> Any:
    """Return a key of order: text by its bytes, missing values first."""
    return value != NULL, value.encode() if isinstance(value, str) else value


def evaluate(term: Term, row: Mapping[str, Any]) -> Any:
    """Return the value of a term over named values."""
    if isinstance(term, Column):
        return row[term.name]
    return TERMS[type(term)](term, *(evaluate(arg, row) for arg in term.args))


def match(term: Match, text: Any) -> bool:
    return text != NULL and re.fullmatch(".*".join(map(re.escape, term.pieces)), text, re.DOTALL) is not None


def substring(term: Substring, text: Any) -> int:
    if text == NULL:
        return NULL
    packed = pack_short(text[term.start - 1 : term.start - 1 + term.length])
    assert packed is not None
    return packed


def text(term: Text, stored: Any) -> Any:
    if stored == NULL:
        return NULL
    return unpack_short(stored) if term.code.type.kind == "short" else term.code.type.words[stored]


def text_call(term: TextCall, *values: Any) -> Any:
    """Return a function of texts, one of which may be missing."""
    if term.function == "concat_ws":
        return NULL if values[0] == NULL else values[0].join(each for each in values[1:] if each != NULL)
    if NULL in values:
        return NULL if term.type.kind == "text" else 0
    return OTHER_CALLS.get(term.function, MEANINGS.get(term.function))(*values)


def decimal_text(number: int, scale: int, whole: int) -> str:
    digits = str(abs(number)).rjust(scale + whole, "0") if number or whole else "0" * scale
    return "-" * (number < 0) + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def part(text: str, separator: str, number: int) -> str | int:
    parts = text.split(separator) if separator else list(text) or [""]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if number and 0 <= place < len(parts) else NULL


OTHER_CALLS: dict[str, Callable[..., Any]] = {
    "number": decimal_text,
    "date": lambda day: str(EPOCH + dt.timedelta(days=day)),
    "split_part": part,
}

TERMS: dict[type[Term], Callable[..., Any]] = {
    Constant: lambda term: term.value,
    Add: lambda _, left, right: left + right,
    Subtract: lambda _, left, right: left - right,
    Multiply: lambda _, left, right: left * right,
    Quotient: lambda _, left, right: left // right,
    Equal: lambda _, left, right: left == right,
    Less: lambda _, left, right: ordered(left) < ordered(right),
    And: lambda _, left, right: left and right,
    Or: lambda _, left, right: left or right,
    Not: lambda _, test: not test,
    Lookup: lambda term, code: term.results[code],
    Member: lambda term, value: value in term.members,
    Match: match,
    Substring: substring,
    Text: text,
    TextCall: text_call,
    Table: lambda term, value: term.results[value - term.low],
    When: lambda _, test, value, otherwise: value if test else otherwise,
    IsNull: lambda _, value: value == NULL,
    Coalesce: lambda _, value, otherwise: otherwise if value == NULL else value,
}
