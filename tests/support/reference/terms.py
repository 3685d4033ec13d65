"""The meaning of terms: their values over the named values of a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import NULL, pack_short


def ordered(value: Any) -> Any:
    """Return a key of order: text by its bytes, missing values first."""
    return value != NULL, value.encode() if isinstance(value, str) else value


def evaluate(term: Term, row: Mapping[str, Any]) -> Any:
    """Return the value of a term over named values."""
    if term.op == "column":
        return row[term.value]
    if term.op == "text":
        code = evaluate(term.args[0], row)
        return NULL if code == NULL else term.args[0].type.words[code]
    return TERMS[term.op](term.value, *(evaluate(arg, row) for arg in term.args))


def match(pieces: tuple[str, ...], text: Any) -> bool:
    return text != NULL and re.fullmatch(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None


def substring(where: tuple[int, int], text: Any) -> int:
    if text == NULL:
        return NULL
    start, length = where
    packed = pack_short(text[start - 1 : start - 1 + length])
    assert packed is not None
    return packed


TERMS: dict[str, Callable[..., Any]] = {
    "literal": lambda value: value,
    "add": lambda _, left, right: left + right,
    "subtract": lambda _, left, right: left - right,
    "multiply": lambda _, left, right: left * right,
    "quotient": lambda _, left, right: left // right,
    "equal": lambda _, left, right: left == right,
    "less": lambda _, left, right: ordered(left) < ordered(right),
    "and": lambda _, left, right: left and right,
    "or": lambda _, left, right: left or right,
    "not": lambda _, test: not test,
    "lookup": lambda table, code: table[code],
    "member": lambda values, value: value in values,
    "match": match,
    "substring": substring,
    "table": lambda table, value: table[1][value - table[0]],
    "when": lambda _, test, value, otherwise: value if test else otherwise,
    "is_null": lambda _, value: value == NULL,
    "coalesce": lambda _, value, otherwise: otherwise if value == NULL else value,
}
