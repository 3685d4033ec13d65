"""Functions of texts."""

from __future__ import annotations

from collections.abc import Callable

from deltamark.dataflow.language import binder
from deltamark.dataflow.plan.terms import Constant, Ratio, Substring, Table, Term, number
from deltamark.dataflow.sql.algebra.operations import Expression
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars.arithmetic import whole
from deltamark.dataflow.sql.scalars.conditions import TRUE
from deltamark.dataflow.sql.scalars.values import Truth, Value
from deltamark.dataflow.types import SHORT_BYTES, code_type, unpack_short


def matches(pattern_of: Callable[[str], str], negation: bool = False) -> Callable[..., Truth]:  # noqa: FBT001, FBT002
    def compute(of: Expression, text: Value, pattern: Value) -> Truth:
        if pattern.null is TRUE or text.null is TRUE:
            return Truth(None, None, total=False)
        assert not isinstance(text.term, Ratio)
        if not isinstance(pattern.term, Constant):
            raise unsupported("a pattern that is no constant")
        word = _word(pattern.term)
        if word != pattern_of("") and of.op not in LIKES and {"%", "_"} & set(word):
            raise unsupported(f"{of.name} of a text with % or _")
        found = Truth.of(_like(text.term, pattern_of(word)), text.null)
        return Truth(found.false, found.true, found.total) if negation else found

    return compute


def _word(literal: Constant) -> str:
    """Return the text of a constant, which may have taken the type of a column."""
    match literal.type.kind:
        case "short":
            return unpack_short(int(literal.value))
        case "code":
            return literal.type.words[int(literal.value)]
    return str(literal.value)


def _like(term: Term, pattern: str) -> Term:
    if isinstance(term, Constant):
        term = Constant(0, code_type((_word(term),)))
    if term.type.kind == "short":
        raise unsupported("LIKE of a substring")
    return binder.like(term, pattern)


LIKES = ("~~", "!~~")


def substring(of: Expression, text: Value, start: Value, length: Value | None = None) -> Value:
    """Take characters from a place on, which counts from 1."""
    first, count = whole(start, of), None if length is None else whole(length, of)
    assert not isinstance(text.term, Ratio)
    if first < 1 or (count is not None and count < 0):
        raise unsupported("substring with a start below 1, or a negative length")
    if text.term.type.kind == "code":
        end = None if count is None else first - 1 + count
        return Value(_word_function(text.term, lambda word: word[first - 1 : end]), text.null)
    if text.term.type.kind != "text" or isinstance(text.term, Constant) or count is None:
        raise unsupported("substring, except of a column with a constant length")
    if not 1 <= count <= SHORT_BYTES:
        raise unsupported(f"substring of more than {SHORT_BYTES} characters")
    return Value(Substring(text.term, first, count), text.null)


def left(of: Expression, text: Value, length: Value) -> Value:
    return substring(of, text, Value(number(1)), length)


def _word_function(code: Term, function: Callable[[str], str]) -> Term:
    """Return the text that a function makes of the word of a code, as another code."""
    made = [function(word) for word in code.type.words]
    words = tuple(sorted(set(made)))
    type_ = code_type(words)
    return Table(code, 0, tuple(map(words.index, made)), type_)


def of_condition(condition: Term) -> Term:
    """Return the word of a condition, as a code."""
    return Table(condition, 0, (0, 1), code_type(condition.type.words))


def of_words(function: Callable[[str], str]) -> Callable[..., Value]:
    def compute(of: Expression, text: Value) -> Value:
        assert not isinstance(text.term, Ratio)
        if text.term.type.kind != "code":
            raise unsupported(f"{of.operation} of stored texts")
        return Value(_word_function(text.term, function), text.null)

    return compute
