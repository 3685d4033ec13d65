"""Series of numbers in FROM, as generate_series and range make them of constants.

The numbers are composed of digits, whose tables are joined. So a plan has few operators, however long the series is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltamark.dataflow.plan.terms import Less, Ratio, Term, number, product, total
from deltamark.dataflow.scalars.values import Value
from deltamark.dataflow.sql import joins
from deltamark.dataflow.sql.fragments import Json
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows import Rows

INCLUSIVE = {"generate_series": 1, "range": 0}
"""By table function, whether the end is one of the numbers."""

BASE, MAX_NUMBERS = 16, 16**5
"""The base of the digits; five of them are a million numbers, which are kept. Not measured."""


def series(get: Json) -> range | None:
    """Return the numbers of a table function; None if it is another one, or has arguments that are no constants."""
    name, arguments = get["qname"]["path"][-1], get.get("parameters") or ()
    if name not in INCLUSIVE or get["children"] or any(each["type"]["id"] != "BIGINT" for each in arguments):
        return None
    if any(each["is_null"] for each in arguments):
        return range(0)
    start, stop, step = _ends([int(each["value"]) for each in arguments])
    return range(start, stop + INCLUSIVE[name] * (1 if step > 0 else -1), step)


def _ends(arguments: Sequence[int]) -> tuple[int, int, int]:
    if len(arguments) == 1:
        return 0, arguments[0], 1
    start, stop, step = [*arguments, 1][:3]
    return start, stop, step


def rows_of(numbers: range, one: Rows) -> Rows:
    """Return a row for each number. one: a row without columns."""
    count = max(-((numbers.start - numbers.stop) // numbers.step), 0)  # len(numbers) has 63 bits at most
    if count > MAX_NUMBERS:
        raise unsupported(f"a series of {count} numbers", remedy=f"write one of at most {MAX_NUMBERS}")
    most = max(min(BASE, count), 1)
    digits = joins.union([one.with_cells([Value(number(digit))]) for digit in range(most)])
    places, capacity = digits, BASE
    while capacity < count:
        places, capacity = joins.pairs(places, digits, ()), capacity * BASE
    index: Term = number(0)
    for cell in places.cells:
        assert isinstance(cell, Value)
        assert not isinstance(cell.term, Ratio)
        index = total(product(index, number(BASE)), cell.term)
    node = places.satisfying(Less(index, number(count))).collection.node
    kept = places.with_node(replace(node, schema=replace(node.schema, rows=max(count, 1))))
    return kept.with_cells([Value(total(number(numbers.start), product(index, number(numbers.step))))])
