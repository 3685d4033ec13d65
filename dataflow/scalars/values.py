"""Values over the rows of a collection: terms, and the conditions under which they are NULL.

The engine computes with values that are never NULL. A value is a term that has some value for every row, and a
condition that says for which rows it is NULL instead. A condition is two conditions: that it is true, and that it is
false. It is unknown for rows that satisfy neither.

In the terms of conditions, None stands for one that never holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from deltamark.dataflow.plan.terms import (
    FALSE,
    TRUE,
    And,
    Coalesce,
    Column,
    Constant,
    Equal,
    IsNull,
    Not,
    Or,
    Ratio,
    Substring,
    Term,
    Text,
    TextCall,
    When,
    coalesced,
    column,
    conjuncts,
    double,
    null,
    number,
    parts_of,
    rescaled,
    to_double,
)
from deltamark.dataflow.scalars.doubles import in_double, is_double, is_mean
from deltamark.dataflow.scalars.expressions import Interval, SqlType
from deltamark.dataflow.scalars.problems import FollowUpError, unsupported
from deltamark.dataflow.scalars.times import as_timestamp
from deltamark.dataflow.types import (
    EPOCH,
    MICROSECONDS_PER_DAY,
    SHORT,
    TEXT,
    TIME,
    TOO_WIDE,
    Field,
    Type,
    date_type,
    integer,
    interval_type,
    pack_short,
    spanning,
    timestamp_type,
)
from deltamark.errors import DeltamarkError

__all__ = ["FALSE", "TRUE"]


def both(left: Term | None, right: Term | None) -> Term | None:
    """Return the conjunction of two conditions; None is a condition that never holds."""
    if left is None or right is None or FALSE in (left, right):
        return None
    if left is TRUE or left is right:
        return right
    return left if right is TRUE else And(left, right)


def either(left: Term | None, right: Term | None) -> Term | None:
    """Return the disjunction of two conditions; None is a condition that never holds."""
    left, right = (None if each is FALSE else each for each in (left, right))
    if left is None or right is None:
        return left if right is None else right
    if TRUE in (left, right):
        return TRUE
    return left if left is right else Or(left, right)


def negated(condition: Term | None) -> Term:
    """Return the negation of a condition."""
    if condition is None or condition is FALSE:
        return TRUE
    if condition is TRUE:
        return FALSE
    return condition.condition if isinstance(condition, Not) else Not(condition)


def surely(condition: Term | None) -> Term:
    """Return a condition as a term."""
    return FALSE if condition is None else condition


def disjuncts(condition: Term) -> list[Term]:
    """Split a condition into the terms of which at least one must hold."""
    return parts_of(condition, Or)


def requirements(condition: Term) -> list[Term]:
    """Split a condition into the terms that must all hold, as which no part of a negated disjunction may."""
    found: list[Term] = []
    for each in conjuncts(condition):
        negates_parts = isinstance(each, Not) and isinstance(each.condition, Or)
        found += map(negated, disjuncts(each.condition)) if negates_parts else [each]  # type: ignore[union-attr]  # a Not
    return found


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
    """Return a stored condition."""
    if isinstance(value, Truth):
        return value
    if isinstance(value.term, Ratio) or value.term.type.kind != "bool":
        raise DeltamarkError("not a condition", kind_of(value), "compare it with something")
    return Truth.of(value.term, value.null)


def kind_of(value: Value) -> str:
    """Return the kind of a value in words, for errors."""
    return "a quotient" if isinstance(value.term, Ratio) else str(value.term.type)


def number_truth(value: Cell) -> Truth:
    """Return whether a number is not 0."""
    if isinstance(value, Value) and is_double(value.term):
        return Truth.of(negated(Equal(in_double(value.term), double(0))), value.null)
    if isinstance(value, Value) and not isinstance(value.term, Ratio) and value.term.type.kind == "int":
        return Truth.of(negated(Equal(value.term, number(0, value.term.type.scale))), value.null)
    return truth_of(value)


def as_double(cell: Cell) -> Cell:
    """Return a number as a quotient, which is stored in two columns; a double, which has one, stays as it is."""
    value = value_of(cell)
    if isinstance(value.term, Ratio):
        return cell
    return cell if is_double(value.term) else Value(Ratio(value.term, number(1)), value.null)


def in_one_column(cell: Cell) -> Cell:
    """Return a quotient as a double, and other values as they are."""
    if isinstance(cell, Refused | Truth) or not isinstance(cell.term, Ratio):
        return cell
    return Value(in_double(cell.term), cell.null)


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
    return value_of_term(column(name, type_))


def value_of_term(term: Term) -> Value:
    """Return the value of a term, as columns store it."""
    return Value(known_term(term), IsNull(term) if term.type.nullable else None)


def known_column(name: str, type_: Type) -> Term:
    """Return a column, with some number where it is NULL."""
    return known_term(column(name, type_))


def known_term(term: Term) -> Term:
    """Return a term, with some number where it is NULL."""
    type_ = term.type
    if not type_.nullable or type_.kind == "text":
        return term
    least = FALSE if type_.kind == "bool" else Constant(type_.low, replace(type_, high=type_.low, nullable=False))
    return coalesced(term, least)


def stored_ratio(numerator: Field, denominator: Field, *, is_mean: bool = False) -> Value:
    """Return the value of a ratio in two columns, which are both NULL if it is NULL."""
    above, below = (known_column(each.name, each.type) for each in (numerator, denominator))
    return Value(Ratio(above, below, is_mean=is_mean), stored_value(numerator.name, numerator.type).null)


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
    passed_on = _passed_on(term)
    if all(isinstance(each, IsNull) and each.value in passed_on for each in disjuncts(missing)):
        return term
    if term.type.nullable:  # a text
        return When(missing, null(term.type), term, term.type)
    return When(missing, null(term.type), term, term.type.or_null())


def _passed_on(term: Term) -> set[Term]:
    """Return the terms that make a text NULL where they are."""
    found, left = set[Term](), [term]
    while left:
        part = left.pop()
        if part.type.nullable and part not in found:
            found.add(part)
            if isinstance(part, TextCall):
                left += part.arguments[:1] if part.function == "concat_ws" else part.arguments
    return found


def stored_terms(name: str, cell: Cell) -> Mapping[str, Term]:
    """Return the columns that store a value, by name."""
    value = value_of(cell)
    if not isinstance(value.term, Ratio):
        return {name: nullable_term(value.term, value.null)}
    above, below = (nullable_term(each, value.null) for each in (value.term.numerator, value.term.denominator))
    match below:
        case When(condition, null_divisor, divisor, type_) if type_.low == 0 < type_.high:
            if Equal(divisor, number(0, divisor.type.scale)) in disjuncts(condition):
                below = When(condition, null_divisor, divisor, replace(type_, low=1))
    return {f"{name}.num": above, f"{name}.den": below}


def cell_of(name: str, cell: Cell, types: Mapping[str, Type]) -> Cell:
    """Return the value that is stored in columns of a name. cell: the value before, which tells its kind."""
    if isinstance(cell, Value) and isinstance(cell.term, Ratio):
        fields = (Field(f"{name}.{part}", types[f"{name}.{part}"]) for part in ("num", "den"))
        return stored_ratio(*fields, is_mean=cell.term.is_mean)
    return stored_value(name, types[name])


def rewritten(cell: Cell, by: Mapping[Term, Term]) -> Cell:
    """Replace parts of the terms of a value, and simplify its conditions."""
    if isinstance(cell, Truth):
        true, false = (None if each is None else simplified(each, by) for each in (cell.true, cell.false))
        return Truth(true, false, cell.total)
    missing = None if cell.null is None else simplified(cell.null, by)
    if isinstance(cell.term, Ratio):
        parts = (simplified(each, by) for each in (cell.term.numerator, cell.term.denominator))
        return Value(Ratio(*parts, is_mean=cell.term.is_mean), None if missing is FALSE else missing)
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
    """Return a code or a short text as a text."""
    match term:
        case Substring(text, start, length):
            return TextCall("substring", (text, number(start), number(length)), text.type)
    return Text(term) if term.type.kind in ("code", "short") else term


def unified(terms: Sequence[Term]) -> list[Term] | None:
    """Return terms of the same kind and scale; None if there is no such kind. A double makes all of them doubles."""
    kinds = {each.type.kind for each in terms}
    if kinds == {"int"}:
        scale = max(each.type.scale for each in terms)
        return [rescaled(each, scale) for each in terms]
    if "double" in kinds and kinds <= {"int", "double"}:
        return list(map(to_double, terms))
    if kinds == {"date", "timestamp"}:
        return [as_timestamp(each) for each in terms]
    if len(kinds) == 1 and len({each.type.words for each in terms}) == 1:
        return list(terms)
    if kinds == {"short", "text"}:
        shorts = [each if each.type.kind == "short" else short_literal(each) for each in terms]
        if None not in shorts:
            return [each for each in shorts if each is not None]
    return [text_term(each) for each in terms] if kinds <= {"code", "text", "short"} else None


def unified_values(values: Sequence[Value]) -> list[Value] | None:
    """Return values whose terms have the same kind. A NULL has the kind of the others.

    All are ratios if one is, unless one is a double, averages over windows are among other ratios, or the ratios need
    more than 64 bits: then all are doubles.
    """
    known = [each for each in values if each.null is not TRUE]
    if not known:
        return [replace(each, term=values[0].term) for each in values]
    if any(isinstance(each.term, Ratio) for each in known):
        try:
            if not any(is_double(each.term) for each in known) and not _are_mixed(known):
                return _unified_ratios(values)
        except DeltamarkError as error:
            if error.cause != TOO_WIDE:
                raise
        if not all(isinstance(each.term, Ratio) or each.term.type.kind in ("int", "double") for each in known):
            return None
        known = [replace(each, term=in_double(each.term)) for each in known]
    terms = unified([each.term for each in known if not isinstance(each.term, Ratio)])
    if terms is None:
        return None
    remaining, filler = iter(terms), some_value(terms[0].type)
    return [Value(filler if each.null is TRUE else next(remaining), each.null) for each in values]


def _are_mixed(values: Sequence[Value]) -> bool:
    """Return whether some ratios are averages over windows and others are not."""
    return len({each.term.is_mean for each in values if isinstance(each.term, Ratio)}) > 1


def _unified_ratios(values: Sequence[Value]) -> list[Value] | None:
    ratios = [each.term if isinstance(each.term, Ratio) else Ratio(each.term, number(1)) for each in values]
    parts = [unified([getattr(each, part) for each in ratios]) for part in ("numerator", "denominator")]
    if parts[0] is None or parts[1] is None:
        return None
    pairs = zip(parts[0], parts[1], values, strict=True)
    are_means = any(is_mean(each) for each in ratios)
    return [Value(Ratio(above, below, is_mean=are_means), each.null) for above, below, each in pairs]


def some_value(type_: Type) -> Term:
    """Return a constant of a type."""
    if type_.kind == "text":
        return Constant("", TEXT)
    if type_.kind == "bool":
        return FALSE
    if type_.kind == "int":
        at = min(max(type_.low, 0), type_.high)
        return number(at, type_.scale)
    if type_.kind == "double":
        return double(0)
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
            return known_column(name, type_)
    return divisor


TIMESTAMP, TIMESTAMPTZ = "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
DOUBLES = ("DOUBLE", "FLOAT")
EXACT_DIGITS, MAX_PLACES = 15, 18
"""The digits of a DOUBLE that stands for the decimal as which it is written, and the places before and after its point.
Another one, such as 1 / 3, which DuckDB computes as it plans, is a double.
"""
NUMBERS = (*INTEGERS, "DECIMAL", *DOUBLES)
CONDITIONS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True), **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}  # fmt: skip
"""The texts that DuckDB casts to a BOOLEAN, in any case."""


def constant(type_: SqlType, value: object) -> Cell:
    """Return a constant."""
    match type_.name, value:
        case "BOOLEAN", None:
            return Truth(None, None, total=False)
        case "BOOLEAN", bool():
            return Truth.of(TRUE if value else None)
        case _, None:
            return Value(some_value(_type_of_null(type_)), TRUE)
        case "DECIMAL", int():
            return Value(number(value, type_.scale))
        case "DATE", int():
            return Value(Constant(value, date_type(value, value)))
        case "TIMESTAMP", int() if value % MICROSECONDS_PER_DAY == 0:
            return constant(SqlType("DATE"), value // MICROSECONDS_PER_DAY)
        case "TIMESTAMP" | "TIMESTAMP WITH TIME ZONE" as name, int():
            return Value(Constant(value, timestamp_type(value, value, zoned=name == TIMESTAMPTZ)))
        case "TIME", int():
            return Value(Constant(value, replace(TIME, low=value, high=value)))
        case "INTERVAL", Interval(0, days, micros):
            length = days * MICROSECONDS_PER_DAY + micros
            return Value(Constant(length, interval_type(length, length)))
        case "INTERVAL", Interval():
            raise unsupported("a constant interval of months that is not added to a date", remedy="write it in days")
        case "VARCHAR", str():
            return Value(Constant(value, TEXT))
        case name, int() if name in INTEGERS:
            return Value(number(value))
        case "FLOAT", int() | float():
            return Value(double(float(np.float32(value))))
        case "DOUBLE", int() | float():
            return Value(_double(value))
    raise unsupported(f"a constant of type {type_.name}")


def _double(value: float) -> Constant:
    """Return a DOUBLE as the decimal that it is written as, if that is short."""
    if not math.isfinite(value):
        return double(value)
    decimal = Decimal(repr(value)).normalize()
    if len(decimal.as_tuple().digits) > EXACT_DIGITS or not -MAX_PLACES <= decimal.adjusted() <= MAX_PLACES:
        return double(value)
    return exact(decimal)


def exact(value: Decimal) -> Constant:
    """Return a decimal as a constant."""
    exponent = min(int(value.as_tuple().exponent), 0)
    return number(int(value.scaleb(-exponent)), -exponent)


def _type_of_null(type_: SqlType) -> Type:
    match type_.name:
        case "VARCHAR":
            return TEXT
        case "DATE" | "TIMESTAMP":
            return date_type(EPOCH, EPOCH)
        case "TIMESTAMP WITH TIME ZONE":
            return timestamp_type(0, 0, zoned=True)
        case "TIME":
            return TIME
        case "INTERVAL":
            return interval_type(0, 0)
    return integer(0, 0, type_.scale)
