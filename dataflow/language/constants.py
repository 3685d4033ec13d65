"""Conditions that compare a term with constants.

Conditions on codes become tables, and texts of at most seven bytes become integers, so that only arithmetic on int64 is
left to evaluate.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Literal

from deltamark.dataflow.plan.terms import Term, disjunction, number, rescaled
from deltamark.dataflow.types import BOOL, EPOCH, TEXT, date_type, pack_short
from deltamark.errors import DeltamarkError


def literal(value: object) -> Term:
    """Return a constant as a term."""
    strange = isinstance(value, dt.datetime) or (isinstance(value, Decimal) and not value.is_finite())
    if strange or not isinstance(value, int | Decimal | dt.date | str):
        remedy = "write an int, Decimal('0.05'), a date, str or bool"
        raise DeltamarkError("not a value of an expression", f"{value!r} ({type(value).__name__})", remedy)
    if isinstance(value, bool):
        return Term.of("literal", (), BOOL, value)
    if isinstance(value, int):
        return number(value)
    if isinstance(value, Decimal):
        exponent = min(int(value.as_tuple().exponent), 0)
        return number(int(value.scaleb(-exponent)), -exponent)
    if isinstance(value, dt.date):
        days = (value - EPOCH).days
        return Term.of("literal", (), date_type(days, days), days)
    return Term.of("literal", (), TEXT, value)


def word_comparison(op: Literal["equal", "less"], term: Term, word: str, less: Callable[[str, str], bool]) -> Term:
    """Compare a column of codes, short texts or texts with a word."""
    match term.type.kind:
        case "code":
            test = (lambda other: other == word) if op == "equal" else (lambda other: less(other, word))
            return _lookup(term, tuple(test(other) for other in term.type.words))
        case "short" if op == "equal":
            return _member(term, (word,))
        case "text" if op == "equal":
            return Term.of("match", (term,), BOOL, (word,))
    raise DeltamarkError("cannot be compared", f"{term} ({term.type}) with {word!r}", "compare like with like")


def one_of(term: Term, values: Iterable[object]) -> Term:
    """Return the condition that a term is one of some values."""
    match term.type.kind:
        case "text":
            return disjunction([Term.of("match", (term,), BOOL, (_text(value),)) for value in values])
        case "code":
            words = _words(term, values)
            return _lookup(term, tuple(word in words for word in term.type.words))
        case _:
            return _member(term, values)


def like(term: Term, pattern: object) -> Term:
    """Return the condition that a code or a text matches a pattern, in which % stands for any text."""
    if not isinstance(pattern, str):
        raise DeltamarkError("not a pattern", repr(pattern), "write a str, with % for any text")
    if term.type.kind == "code":
        regex = re.compile(re.escape(pattern).replace("%", ".*").replace("_", "."), re.DOTALL)
        return _lookup(term, tuple(bool(regex.fullmatch(word)) for word in term.type.words))
    if "_" in pattern:
        raise DeltamarkError("a pattern for stored text has % alone", repr(pattern), "leave _ out")
    return Term.of("match", (term,), BOOL, tuple(pattern.split("%")))  # prefix, then pieces in order, suffix


def _lookup(term: Term, table: tuple[bool, ...]) -> Term:
    """Return a condition on a code, as a table of its value for each code."""
    return Term.of("lookup", (term,), BOOL, table)


def _member(term: Term, values: Iterable[object]) -> Term:
    """Return the condition that a term is one of some values, which are stored as sorted integers."""
    if term.type.kind == "short":
        stored = [packed for word in _words(term, values) if (packed := pack_short(word)) is not None]
    else:
        constants = [literal(value) for value in values]
        for constant in constants:
            if constant.type.kind != term.type.kind or constant.type.scale > term.type.scale:
                raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {constant}", "use its own type")
        scale = term.type.scale
        stored = [rescaled(each, scale).value if scale else each.value for each in constants]
    return Term.of("member", (term,), BOOL, tuple(sorted(set(stored))))


def _words(term: Term, values: Iterable[object]) -> list[str]:
    """Return the values with which a term of texts is compared."""
    words = []
    for value in values:
        if not isinstance(value, str):
            raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {value!r}", "use its own type")
        words.append(value)
    return words


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise DeltamarkError("not a text", repr(value), "write a str")
    return value
