"""SQL text of terms: the conditions and computed columns of a plan, as a user would write them.

Binding changes how an expression is stored: decimals become scaled integers, words of code columns become tables of
codes, and `>=` becomes a negated `<`. This module reverses that.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import takewhile
from typing import Literal, assert_never

from deltamark.dataflow.plan.terms import (
    MAX_WRITTEN,
    Add,
    And,
    Checked,
    Coalesce,
    Column,
    Constant,
    DoubleArithmetic,
    DoubleFunction,
    Equal,
    ExactMoment,
    FromDouble,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Moment,
    Multiply,
    Not,
    Or,
    Passes,
    Quotient,
    Substring,
    Subtract,
    Table,
    Term,
    Text,
    TextCall,
    ToDouble,
    When,
)
from deltamark.dataflow.types import EPOCH, Type, value_of

OR, AND, NOT, COMPARISON, SUM, PRODUCT, ATOM = range(1, 8)
"""How tightly the operators of SQL bind, the loosest first."""

MAX_LISTED_WORDS = 2
"""More words than these are written as a pattern, if there is one that matches the same words."""

RESERVED_WORDS = (
    "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create "
    "current_catalog default deferrable desc describe distinct do else end except false fetch for foreign from grant "
    "group having in initially intersect into lambda lateral leading limit not null offset on only or order pivot "
    "pivot_longer pivot_wider placing primary qualify references returning select show some summarize symmetric table "
    "then to trailing true union unique unpivot using variadic when where window with"
)
RESERVED = frozenset(RESERVED_WORDS.split())
"""The words that SQL does not accept as the name of a column without quotes."""

Negation = Literal["", "NOT "]


def sql(term: Term, within: int = 0) -> str:
    """Write a term as SQL, in parentheses if the text around it binds more tightly. One that is too long is cut."""
    if term.operations > MAX_WRITTEN:
        return f"{term.operation}(...)"
    text, binding = _written(term)
    return f"({text})" if binding < within else text


def identifier(name: str) -> str:
    """Write the name of a column, in quotes if SQL needs them. A part up to a NUL only makes the name unique."""
    name = name.rpartition("\0")[2]
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Write the names of columns."""
    return ", ".join(map(identifier, names))


def by_columns(keys: Sequence[str]) -> str:
    """Write the columns of groups; nothing if there are none."""
    return f"by {listed(keys)}" if keys else ""


def on_columns(left: Sequence[str], right: Sequence[str]) -> str:
    """Write the columns by which two collections are joined; nothing if there are none."""
    pairs = [(identifier(mine), identifier(theirs)) for mine, theirs in zip(left, right, strict=True)]
    keys = ", ".join(mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in pairs)
    return f"on {keys}" if keys else ""


def _written(term: Term) -> tuple[str, int]:
    """Return the SQL of a term, and how tightly it binds."""
    match term:
        case Column(name):
            return identifier(name), ATOM
        case Constant(value, type_):
            return literal(type_, value), ATOM
        case Add(left, right):
            return f"{sql(left, SUM)} + {sql(right, SUM)}", SUM
        case Subtract(Constant(value=0), right):
            return f"-{sql(right, ATOM)}", PRODUCT
        case Subtract(left, right):
            return f"{sql(left, SUM)} - {sql(right, PRODUCT)}", SUM
        case Multiply():
            return _product(term)
        case Quotient(left, right):
            return f"floor({sql(left, PRODUCT)} / {sql(right, ATOM)})", ATOM
        case And(left, right):
            between = _between(left, right)
            return (f"{sql(left, AND)} AND {sql(right, AND)}", AND) if between is None else (between, COMPARISON)
        case Or(left, right):
            return f"{sql(left, OR)} OR {sql(right, OR)}", OR
        case Not(condition):
            return _condition(condition, "NOT ")
        case Equal() | Less() | IsNull() | Lookup() | Member() | Match():
            return _condition(term, "")
        case When(test, yes, no):
            return f"CASE WHEN {sql(test)} THEN {sql(yes)} ELSE {sql(no)} END", ATOM
        case Text(code):
            return _written(code)
        case Table(argument):
            return f"{_table_name(term)}({sql(argument)})", ATOM
        case Substring(text, start, length):
            return f"substring({sql(text)}, {start}, {length})", ATOM
        case TextCall("like", (text, pattern, escape)):
            return _like(text, pattern, escape), COMPARISON
        case TextCall():
            return _called(term), ATOM
        case Moment(function) | ExactMoment(function):
            return f"{function}({', '.join(map(sql, term.args))})", ATOM
        case DoubleArithmetic(left, right, "atan2" as name):
            return f"{name}({sql(left)}, {sql(right)})", ATOM
        case Checked(left, right, sign) | DoubleArithmetic(left, right, sign):
            binding = SUM if sign in "+-" else PRODUCT
            return f"{sql(left, binding)} {sign} {sql(right, binding + 1)}", binding
        case ToDouble(value):
            return f"{sql(value, ATOM)}::DOUBLE", ATOM
        case FromDouble(value):
            return f"{sql(value, ATOM)}::{f'DECIMAL(38, {term.type.scale})' if term.type.scale else 'BIGINT'}", ATOM
        case DoubleFunction(value, function, places):
            return f"{function}({sql(value)}{f', {places}' if places else ''})", ATOM
        case Coalesce() | Passes():
            return f"{term.operation}({', '.join(map(sql, term.args))})", ATOM
        case _:
            assert_never(term)


def _called(term: TextCall) -> str:
    """Write a function of texts, of which some are casts."""
    match term:
        case TextCall("number" | "date" | "short", (value, *_)):
            return f"CAST({sql(value)} AS VARCHAR)"
        case TextCall("padding", (text, count, padding)):
            return f"repeat({sql(padding)}, {sql(count)} - length({sql(text)}))"
    return f"{term.function}({', '.join(map(sql, term.arguments))})"


def _like(text: Term, pattern: Term, escape: Term) -> str:
    """Write the comparison of a text with a pattern."""
    written = f"{sql(text, SUM)} LIKE {sql(pattern, SUM)}"
    match escape:
        case Constant(int(byte)) if byte >= 0:
            return f"{written} ESCAPE {_quoted(chr(byte))}"
    return written


def _product(term: Multiply) -> tuple[str, int]:
    """Write a product. A factor that only adds decimal places changes the scale beyond that of the factors."""
    left, right = term.left, term.right
    if term.type.scale > left.type.scale + right.type.scale:
        return _written(left)
    return f"{sql(left, PRODUCT)} * {sql(right, PRODUCT)}", PRODUCT


def _table_name(term: Table) -> str:
    """Return the name of a function that is a table: the year of a date, or no known one."""
    if term.number.type.kind != "date" or term.type.kind != "int":
        return "table"
    ends = [(EPOCH + dt.timedelta(days=term.low + at)).year for at in (0, len(term.results) - 1)]
    return "year" if [term.results[0], term.results[-1]] == ends else "table"


def _condition(term: Term, negation: Negation) -> tuple[str, int]:
    """Write a condition or its negation."""
    match term:
        case Equal(left, right):
            return _comparison("<>" if negation else "=", left, right), COMPARISON
        case Less(left, right):
            return _comparison(">=" if negation else "<", left, right), COMPARISON
        case IsNull(value):
            return f"{sql(value, SUM)} IS {negation}NULL", COMPARISON
        case Lookup():
            return _word_test(term, negation), COMPARISON
        case Member(value, members):
            return _one_of(sql(value, SUM), [literal(value.type, each) for each in members], negation), COMPARISON
        case Match():
            return _match(term, negation), COMPARISON
    return f"NOT {sql(term, COMPARISON)}", NOT


def _comparison(symbol: str, left: Term, right: Term) -> str:
    """Write a comparison, with a constant on the right."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right = right, left
        symbol = {"<": ">", ">=": "<="}.get(symbol, symbol)
    return f"{sql(left, SUM)} {symbol} {sql(right, SUM)}"


def _between(low: Term, high: Term) -> str | None:
    """Write a range of constants that includes both ends; None if the conditions are no such range."""
    match low, high:
        case Not(Less(term, Constant() as least)), Not(Less(Constant() as most, same)) if term is same:
            return f"{sql(term, SUM)} BETWEEN {sql(least)} AND {sql(most)}"
    return None


def _word_test(term: Lookup, negation: Negation) -> str:
    """Write a condition on a code as one on its words."""
    of, holds = term.code, [each != bool(negation) for each in term.results]
    words = [word for word, kept in zip(of.type.words, holds, strict=True) if kept]
    others = [word for word, kept in zip(of.type.words, holds, strict=True) if not kept]
    if not words or not others:
        return "TRUE" if words else "FALSE"
    name = sql(of, SUM)
    for some, rest, negated in ((words, others, ""), (others, words, "NOT ")):
        pattern = _pattern(some, rest) if len(some) > MAX_LISTED_WORDS else None
        if pattern is not None:
            return f"{name} {negated}LIKE {_quoted(pattern)}"
    if len(words) <= len(others):
        return _one_of(name, map(_quoted, words), "")
    return _one_of(name, map(_quoted, others), "NOT ")


def _pattern(words: Sequence[str], others: Sequence[str]) -> str | None:
    """Find a pattern for the beginning or the end that matches some words, and none of the others."""
    first = _common_prefix(words).split(" ")
    last = _common_prefix([word[::-1] for word in words])[::-1].split(" ")
    for count in range(1, max(len(first), len(last)) + 1):
        prefix, suffix = " ".join(first[:count]), " ".join(last[-count:])
        if _is_plain(prefix) and not any(word.startswith(prefix) for word in others):
            return f"{prefix}%"
        if _is_plain(suffix) and not any(word.endswith(suffix) for word in others):
            return f"%{suffix}"
    return None


def _common_prefix(words: Sequence[str]) -> str:
    """Return the longest text that all words begin with, which is that of the first and the last one in order."""
    pairs = zip(min(words), max(words), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_plain(text: str) -> bool:
    """Return whether a text has characters, and none that patterns give a meaning."""
    return bool(text) and not {"%", "_", "\\"} & set(text)


def _match(term: Match, negation: Negation) -> str:
    """Write the comparison of a text with a text, or with a pattern."""
    name = sql(term.text, SUM)
    if len(term.pieces) == 1:
        return _one_of(name, [_quoted(term.pieces[0])], negation)
    pattern = "%".join(term.pieces)
    if pattern.count("%") < len(term.pieces) and "_" not in pattern:
        return f"{name} {negation}LIKE {_quoted(pattern)}"
    escaped = "%".join(re.sub(r"([\\%_])", r"\\\1", piece) for piece in term.pieces)
    return f"{name} {negation}LIKE {_quoted(escaped)} ESCAPE {_quoted(chr(92))}"


def _one_of(name: str, values: Iterable[str], negation: Negation) -> str:
    found = list(values)
    match found:
        case []:
            return "TRUE" if negation else "FALSE"
        case [value]:
            return f"{name} {'<>' if negation else '='} {value}"
    return f"{name} {negation}IN ({', '.join(found)})"


def literal(type_: Type, stored: int | str | None) -> str:
    """Write a stored value of a type."""
    value = value_of(type_, stored)
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return _quoted(value)
        case dt.datetime():
            return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value}'"
        case dt.date() | dt.time():
            return f"{'TIME' if isinstance(value, dt.time) else 'DATE'} '{value}'"
        case dt.timedelta():
            return f"INTERVAL '{stored} microseconds'"
        case float():
            return repr(value) if math.isfinite(value) else f"'{value}'::DOUBLE"
    text = f"{Decimal(value):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
