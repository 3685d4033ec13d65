"""Random sums, averages and moments of doubles of any magnitude.

DuckDB rounds after each addition. So the text for DuckDB collects the values, `exact_sum(list(x))`, and a function in
Python computes the exact value, rounded once; the text for the engine is `(sum(x))`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa

from fuzz.queries import conditions, windows
from fuzz.queries.parts import NOTHING, Part, clause, listed
from fuzz.queries.writer import Named, Scope, Writer

SORTS = ("wide", "float")
"""The sorts of the values: any doubles, and those that DuckDB adds without rounding."""

SUMS = ("sum", "avg")
VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "variance", "stddev")
COMOMENTS = ("covar_pop", "covar_samp", "corr")

KINDS = (SUMS, VARIANCES, COMOMENTS[:2], COMOMENTS[2:])

DIGITS = 800
"""The digits of intermediate results: a sum of squares of doubles has fewer."""

PRECISE = Context(prec=DIGITS, Emax=10**6, Emin=-(10**6))

Pair = tuple[float, float]


def select(w: Writer, rows: Scope, rest: tuple[str | Part, ...]) -> tuple[Part, list[Named]]:
    """Draw a SELECT of functions of doubles, over windows or of groups. rest: FROM and WHERE."""
    if windows.can_be_drawn("int", rows) and w.chance(55):
        return _over_frames(w, rows, rest)
    keys = [w.pick([each for each in rows.columns if each.sort != "double"])] if w.chance(75) else []
    items, columns = [], []
    for _ in range(w.pick([1, 2])):
        name = w.fresh("e")
        function = w.pick([w.pick(each) for each in KINDS])
        items.append(Part("item", (_call(w, function, rows, NOTHING), f" AS {name}")))
        columns.append(Named(name, "double"))
    for key in keys:
        name = w.fresh("k")
        items.append(Part("item", (f"{key.text} AS {name}",)))
        columns.append(Named(name, key.sort))
    group = clause(" GROUP BY ", ", ".join(each.text for each in keys)) if keys else NOTHING
    return Part("query", ("SELECT ", listed(items), *rest, group), "doubles of groups"), columns


def _over_frames(w: Writer, rows: Scope, rest: tuple[str | Part, ...]) -> tuple[Part, list[Named]]:
    """Draw sums and averages over frames; with them all columns, so that equal sums of different rows differ."""
    columns = [Named(w.fresh("x"), each.sort) for each in rows.columns]
    items = [Part("item", (f"{each.text} AS {new.text}",)) for each, new in zip(rows.columns, columns, strict=True)]
    over = Part("over", (" OVER (", windows.framed(w, rows), ")"))  # of two, SQL leaves open which values meet
    for _ in range(w.pick([1, 1, 2])):
        name = w.fresh("o")
        items.append(Part("item", (_call(w, w.pick(SUMS), rows, over), f" AS {name}")))
        columns.append(Named(name, "double"))
    return Part("query", ("SELECT ", listed(items), *rest), "doubles over frames"), columns


def _call(w: Writer, function: str, rows: Scope, over: Part) -> Part:
    of = [each.text for each in rows.columns if each.sort in SORTS]
    filtered = NOTHING
    if w.chance(20):
        filtered = clause(" FILTER (WHERE ", conditions.condition(w, rows.flat(), 1), ")")
    values = w.pick(of)
    if function in COMOMENTS:
        values = f"struct_pack(one := {values}, other := {w.pick(of)})"
    construct = f"{function} of doubles{' OVER' if over is not NOTHING else ''}"
    return Part("double", (f"exact_{function}(list({values})", filtered, over, ")"), construct)


def for_engine(text: str) -> str:
    """Return the text for the engine."""
    pairs = re.sub(r"list\(struct_pack\(one := (.+?), other := (.+?)\)", r"list(\1, \2", text)
    return re.sub(r"exact_(\w+)\(list\(", r"(\1(", pairs)


def add_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB compute the exact functions."""

    def add(name: str, function: Callable[[Any], float | None], of: str) -> None:
        def of_column(column: pa.ChunkedArray) -> pa.Array:  # a function of Python values would make NULL of NaN
            return pa.array(map(function, column.to_pylist()), pa.float64())

        connection.create_function(f"exact_{name}", of_column, [of], "DOUBLE", type="arrow", null_handling="special")

    for name in (*SUMS, *VARIANCES):
        add(name, _of_values(name), "DOUBLE[]")
    for name in COMOMENTS:
        add(name, _of_pairs(name), "STRUCT(one DOUBLE, other DOUBLE)[]")


def _of_values(name: str):
    def function(values: Sequence[float | None] | None) -> float | None:
        kept = [each for each in values or () if each is not None]
        if name not in SUMS:
            return moment(name, [(each, each) for each in kept])
        return exact_sum(kept, len(kept) if name == "avg" else 1) if kept else None

    return function


def _of_pairs(name: str):
    def function(values: Sequence[Mapping[str, float | None]] | None) -> float | None:
        pairs = [(each["one"], each["other"]) for each in values or ()]
        return moment(name, [(one, other) for one, other in pairs if one is not None and other is not None])

    return function


def exact_sum(values: Sequence[float], divisor: int) -> float:
    """Return the quotient of the sum of some values and a divisor, rounded once."""
    special = [each for each in values if not math.isfinite(each)]
    return sum(special) if special else rounded(sum(map(Fraction, values)) / divisor)


def moment(name: str, pairs: Sequence[Pair]) -> float | None:
    """Return a moment of pairs, computed exactly but for its root and its last rounding."""
    count = len(pairs)
    if count == 0 or (count == 1 and name not in ("var_pop", "stddev_pop", "covar_pop", "corr")):
        return None
    if not all(math.isfinite(each) for pair in pairs for each in pair):
        return math.nan
    ones, others = ([Fraction(each) for each in column] for column in zip(*pairs, strict=True))
    if name == "corr":
        below = _comoment(ones, ones) * _comoment(others, others)
        return _quotient(_comoment(ones, others), below) if below else math.nan
    found = _comoment(ones, others) / (count if name.endswith("_pop") else count - 1)
    return float(_root(found)) if name.startswith("stddev") else rounded(found)


def _comoment(ones: Sequence[Fraction], others: Sequence[Fraction]) -> Fraction:
    """Return the sum of the products of the distances from both means."""
    products = sum(one * other for one, other in zip(ones, others, strict=True))
    return products - sum(ones) * sum(others) / len(ones)


def _root(value: Fraction) -> Decimal:
    return PRECISE.sqrt(PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator)))


def _quotient(above: Fraction, below: Fraction) -> float:
    """Return a number divided by the root of another."""
    root = float(_root(above * above / below))
    return root if above > 0 else -root


def rounded(value: Fraction) -> float:
    """Return the nearest double."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
