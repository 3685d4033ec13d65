"""The meaning of terms: their values over the named values of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from deltamark.dataflow.kernels.moments import DIGIT_BITS
from deltamark.dataflow.plan.terms import (
    OF_SAMPLES,
    ROOTS,
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
    Moment,
    Multiply,
    Not,
    Or,
    Quotient,
    Substring,
    Subtract,
    Table,
    Term,
    Text,
    When,
)
from deltamark.dataflow.types import NULL, pack_short, stored_double


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


def moment(term: Moment, rows: int, *sums: int) -> int:
    """Return a variance, a covariance or a correlation of at least one row; without rows, some number."""
    if rows <= (term.function in OF_SAMPLES):
        return 0
    comoments = [
        rows * (low + high * 2**DIGIT_BITS) - x * y
        for x, y, low, high in zip(sums[::4], sums[1::4], sums[2::4], sums[3::4], strict=True)
    ]
    if len(comoments) > 1:
        shared, one, other = comoments
        return stored_double(shared / math.sqrt(float(one) * other) if one and other else math.nan)
    found = comoments[0] / (float(rows) * (rows - (term.function in OF_SAMPLES)) * 10**term.scale)
    return stored_double(math.sqrt(found) if term.function in ROOTS else found)


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
    Text: lambda term, code: NULL if code == NULL else term.code.type.words[code],
    Table: lambda term, value: term.results[value - term.low],
    When: lambda _, test, value, otherwise: value if test else otherwise,
    IsNull: lambda _, value: value == NULL,
    Moment: moment,
    Coalesce: lambda _, value, otherwise: otherwise if value == NULL else value,
}
