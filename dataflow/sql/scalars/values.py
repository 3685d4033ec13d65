"""Values of SQL over the rows of a collection: terms, and the conditions under which they are NULL.

The engine computes with values that are never NULL. A value of SQL is a term that has some value for every row, and a
condition that says for which rows it is NULL instead. A condition of SQL is two conditions: that it is true, and that
it is false. It is unknown for rows that satisfy neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deltamark.dataflow.plan.terms import (
    And,
    Coalesce,
    Column,
    Constant,
    Equal,
    IsNull,
    Not,
    Or,
    Ratio,
    Term,
    Text,
    When,
    coalesced,
    column,
    null,
    number,
    rescaled,
)
from deltamark.dataflow.sql.problems import FollowUpError, unsupported
from deltamark.dataflow.sql.scalars.conditions import FALSE, TRUE, both, disjuncts, either, negated, surely
from deltamark.dataflow.types import SHORT, TEXT, Field, Type, integer, pack_short, spanning


@dataclass(frozen=True)
class Value:
    """A number, a date, a text or a stored condition. null: the condition under which it is NULL; None: never."""

    term: Term | Ratio
    null: Term | None = None

    @property
    def nulls(self) -> Term | None:
        return self.null


@dataclass(frozen=True)
class Truth:
    """A condition. true, false: the conditions under which it is true, and under which it is false."""

    true: Term | None
    false: Term | None
    total: bool = True
    """Whether it is never NULL."""

    @classmethod
    def of(cls, condition: Term | None, null: Term | None = None) -> Truth:
        """Return a condition that is NULL for some rows."""
        if null is None:
            return cls(condition, negated(condition))
        known = negated(null)
        return cls(both(condition, known), both(negated(condition), known), total=False)

    @property
    def nulls(self) -> Term | None:
        return None if self.total else both(negated(self.true), negated(self.false))

    def value(self) -> Value:
        """Return the value that stores it."""
        return Value(surely(self.true), self.nulls)


class Refused(Value):
    """The value of an expression that is not supported. It can be carried along, but not used."""

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> object:
        if name in ("term", "null", "nulls"):
            raise FollowUpError
        return super().__getattribute__(name)


Cell = Value | Truth


def truth_of(value: Cell) -> Truth:
    """Return a stored condition, or a number as a condition: it is not 0."""
    if isinstance(value, Truth):
        return value
    if isinstance(value.term, Ratio):
        raise unsupported("a quotient as a condition", remedy="compare it with a number")
    if value.term.type.kind == "bool":
        return Truth.of(value.term, value.null)
    if value.term.type.kind != "int":
        raise unsupported("a text or a date as a condition", remedy="compare it with a constant")
    return Truth.of(negated(Equal(value.term, number(0, value.term.type.scale))), value.null)


def as_double(cell: Cell) -> Cell:
    """Return a number as a quotient, which is stored in two columns."""
    value = value_of(cell)
    return cell if isinstance(value.term, Ratio) else Value(Ratio(value.term, number(1)), value.null)


def value_of(cell: Cell) -> Value:
    """Return a condition as a value."""
    return cell.value() if isinstance(cell, Truth) else cell


def as_number(term: Term) -> Term:
    """Return a condition as 1 or 0; other terms stay as they are."""
    return chosen(term, number(1), number(0)) if term.type.kind == "bool" else term


def chosen(condition: Term, yes: Term, no: Term) -> Term:
    """Return one of two terms of the same type."""
    if yes is no or condition is TRUE:
        return yes
    if condition is FALSE:
        return no
    return When(condition, yes, no, spanning(yes.type, no.type))


def stored_value(name: str, type_: Type) -> Value:
    """Return the value of a column; a number that may be NULL is given some value then."""
    term = column(name, type_)
    if not type_.nullable:
        return Value(term)
    missing = IsNull(term)
    if type_.kind == "text":
        return Value(term, missing)
    least = FALSE if type_.kind == "bool" else Constant(type_.low, replace(type_, high=type_.low, nullable=False))
    return Value(coalesced(term, least), missing)


def stored_ratio(numerator: Field, denominator: Field) -> Value:
    """Return the value of a ratio in two columns, which are both NULL if it is NULL."""
    above, below = (stored_value(each.name, each.type) for each in (numerator, denominator))
    assert not isinstance(above.term, Ratio)
    assert not isinstance(below.term, Ratio)
    return Value(Ratio(above.term, below.term), above.null)


def nullable_term(term: Term, missing: Term | None) -> Term:
    """Return a term that is NULL under a condition, as columns store it."""
    if missing is None:
        return term
    match missing, term:
        case IsNull(known), Coalesce(value) if known is value:
            return value
        case IsNull(known), _ if known is term:
            return term
    if missing is TRUE:
        return null(term.type)
    if term.type.nullable:  # a text
        return When(missing, null(term.type), term, term.type)
    return When(missing, null(term.type), term, term.type.or_null())


def stored_terms(name: str, cell: Cell) -> Mapping[str, Term]:
    """Return the columns that store a value, by name."""
    value = value_of(cell)
    if not isinstance(value.term, Ratio):
        return {name: nullable_term(value.term, value.null)}
    parts = {f"{name}.num": value.term.numerator, f"{name}.den": value.term.denominator}
    return {each: nullable_term(term, value.null) for each, term in parts.items()}


def cell_of(name: str, cell: Cell, types: Mapping[str, Type]) -> Cell:
    """Return the value that is stored in columns of a name. cell: the value before, which tells its kind."""
    if isinstance(cell, Value) and isinstance(cell.term, Ratio):
        fields = (Field(f"{name}.{part}", types[f"{name}.{part}"]) for part in ("num", "den"))
        return stored_ratio(*fields)
    return stored_value(name, types[name])


def terms_of(cell: Cell) -> list[Term]:
    """Return the terms from which a value is computed, without the condition under which it is NULL."""
    value = value_of(cell)
    if isinstance(value.term, Ratio):
        return [value.term.numerator, value.term.denominator]
    return [value.term]


def rewritten(cell: Cell, by: Mapping[Term, Term]) -> Cell:
    """Replace parts of the terms of a value, and simplify its conditions."""
    if isinstance(cell, Truth):
        true, false = (None if each is None else simplified(each, by) for each in (cell.true, cell.false))
        return Truth(true, false, cell.total)
    missing = None if cell.null is None else simplified(cell.null, by)
    if isinstance(cell.term, Ratio):
        parts = (simplified(each, by) for each in (cell.term.numerator, cell.term.denominator))
        return Value(Ratio(*parts), None if missing is FALSE else missing)
    return Value(simplified(cell.term, by), None if missing is FALSE else missing)


def simplified(term: Term, by: Mapping[Term, Term]) -> Term:
    """Replace parts of a term, and evaluate conditions that become constant."""
    return _simplified(term, dict(by))


def _simplified(term: Term, done: dict[Term, Term]) -> Term:
    """Simplify a term. done: the results for parts, each of which is made once."""
    if term not in done:
        done[term] = _with_arguments(term, tuple(_simplified(each, done) for each in term.args))
    return done[term]


def _with_arguments(term: Term, args: tuple[Term, ...]) -> Term:
    """Return a term with other arguments, or the constant or the argument that it is then."""
    if args == term.args:
        return term
    match term:
        case And():
            return surely(both(*args))
        case Or():
            return surely(either(*args))
        case Not():
            return negated(args[0])
        case IsNull() if not args[0].type.nullable:
            return FALSE
        case Coalesce() if not args[0].type.nullable:
            return args[0]
        case When() if args[0] in (TRUE, FALSE):
            return args[1] if args[0] is TRUE else args[2]
    return term.with_args(args)


def short_literal(term: Term) -> Term | None:
    """Return a constant text as a short text; None if it is none, or too long."""
    packed = pack_short(term.value) if isinstance(term, Constant) and isinstance(term.value, str) else None
    return None if packed is None else Constant(packed, SHORT)


def text_term(term: Term) -> Term:
    """Return a code as a text."""
    return Text(term) if term.type.kind == "code" else term


def unified(terms: Sequence[Term]) -> list[Term] | None:
    """Return terms of the same kind and scale; None if there is no such kind."""
    kinds = {each.type.kind for each in terms}
    if kinds == {"int"}:
        scale = max(each.type.scale for each in terms)
        return [rescaled(each, scale) for each in terms]
    if kinds == {"code"} and len({each.type.words for each in terms}) == 1:
        return list(terms)
    if kinds <= {"code", "text"}:
        return [text_term(each) for each in terms]
    if kinds == {"short", "text"}:
        shorts = [each if each.type.kind == "short" else short_literal(each) for each in terms]
        return None if None in shorts else [each for each in shorts if each is not None]
    return list(terms) if len(kinds) == 1 else None


def unified_values(values: Sequence[Value]) -> list[Value] | None:
    """Return values whose terms have the same kind: all are ratios, if one is. A NULL has the kind of the others."""
    known = [each for each in values if each.null is not TRUE]
    if not known:
        return [replace(each, term=values[0].term) for each in values]
    if any(isinstance(each.term, Ratio) for each in known):
        ratios = [each.term if isinstance(each.term, Ratio) else Ratio(each.term, number(1)) for each in values]
        parts = [unified([getattr(each, part) for each in ratios]) for part in ("numerator", "denominator")]
        if parts[0] is None or parts[1] is None:
            return None
        pairs = zip(parts[0], parts[1], values, strict=True)
        return [Value(Ratio(above, below), each.null) for above, below, each in pairs]
    terms = unified([each.term for each in known if not isinstance(each.term, Ratio)])
    if terms is None:
        return None
    remaining, filler = iter(terms), some_value(terms[0].type)
    return [Value(filler if each.null is TRUE else next(remaining), each.null) for each in values]


def some_value(type_: Type) -> Term:
    """Return a constant of a type."""
    if type_.kind == "text":
        return Constant("", TEXT)
    if type_.kind == "bool":
        return FALSE
    if type_.kind == "int":
        at = min(max(type_.low, 0), type_.high)
        return number(at, type_.scale)
    return Constant(type_.low, replace(type_, high=type_.low, nullable=False))


def positive(term: Term) -> Term:
    """Return a number of at least 1 for rows where it is a denominator; others are NULL."""
    if term.type.low >= 1:
        return term
    zero = Equal(term, number(0, term.type.scale))
    one = number(1, term.type.scale)
    return When(zero, one, term, integer(1, max(term.type.high, 1), term.type.scale))


def _tested(missing: Term | None) -> list[Term]:
    """Return the values each of which makes a condition true if it is NULL."""
    return [] if missing is None else [each.value for each in disjuncts(missing) if isinstance(each, IsNull)]


def known_count(divisor: Term, missing: Term | None) -> Term:
    """Return a divisor for rows in which a condition does not hold, by which a count would be missing."""
    match divisor:
        case Coalesce(Column(name, type_) as known) if known in _tested(missing):
            return value_of(stored_value(name, type_)).term  # type: ignore[return-value]  # a column
    return divisor
