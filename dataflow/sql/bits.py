"""Aggregates of bits: bit_and, bit_or and bit_xor, from the number of rows in which each bit is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deltamark.dataflow.plan.terms import Add, Equal, Less, Multiply, Ratio, Subtract, Term, negative, number, quotient
from deltamark.dataflow.scalars.values import chosen
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.types import Type, integer

if TYPE_CHECKING:
    from deltamark.dataflow.sql.groups import AggregateCall

BITS = ("bit_and", "bit_or", "bit_xor")


def width_of(type_: Type) -> int:
    """Return the number of bits of a number, the last of which is its sign if it may be negative."""
    if type_.low >= 0:
        return type_.high.bit_length()
    return max((~type_.low).bit_length(), max(type_.high, 0).bit_length()) + 1


def bit_terms(call: AggregateCall, term: Term | Ratio) -> list[Term]:
    """Return each bit of a whole number, the lowest first."""
    if isinstance(term, Ratio) or term.type.kind != "int" or term.type.scale:
        raise unsupported(f"{call.name} of a value that is no whole number", call.place)
    shifted = [term, *(quotient(term, number(2**at), 0) for at in range(1, width_of(term.type)))]
    last = negative(shifted[-1]) if term.type.low < 0 else shifted[-1]
    return [*map(_bit, shifted, shifted[1:]), last] if term.type != integer(0, 0) else []


def _bit(term: Term, halved: Term) -> Term:
    """Return the lowest bit of a number. halved: half of it, rounded down."""
    return Subtract(term, Multiply(halved, number(2), Type("int", 0, term.type.low - 1, term.type.high)), integer(0, 1))


def combined_bits(call: AggregateCall, type_: Type, counts: list[Term], count: Term) -> Term:
    """Return the number of the combined bits. type_: that of the argument; count: the number of rows."""
    tests: Mapping[str, Callable[[Term], Term]] = {
        "bit_and": lambda of: Equal(of, count), "bit_or": lambda of: Less(number(0), of), "bit_xor": _is_odd,
    }  # fmt: skip
    sign = len(counts) - 1 if type_.low < 0 else len(counts)
    found: Term = number(0)
    low, high = 0, 0
    for at, each in enumerate(counts):
        value = -(2**at) if at == sign else 2**at
        low, high = low + min(value, 0), high + max(value, 0)
        found = Add(found, chosen(tests[call.function](each), number(value), number(0)), integer(low, high))
    return found


def _is_odd(count: Term) -> Term:
    return Equal(_bit(count, quotient(count, number(2), 0)), number(1))
