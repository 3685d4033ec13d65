"""The functions of SQL by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from deltamark.dataflow.plan.terms import Constant, Ratio, number
from deltamark.dataflow.sql.algebra.operations import Expression
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars import dates, numbers
from deltamark.dataflow.sql.scalars.arithmetic import arithmetic, of_number, of_whole_numbers, rounding, whole_quotient
from deltamark.dataflow.sql.scalars.choices import best_of
from deltamark.dataflow.sql.scalars.conditions import TRUE, either
from deltamark.dataflow.sql.scalars.literals import constant
from deltamark.dataflow.sql.scalars.texts import left, matches, of_words, substring
from deltamark.dataflow.sql.scalars.values import Cell, Value, value_of


def _of_date(of: Expression, *values: Value) -> Value:
    """Compute a part of a date, or round it; the name of the part may be the first argument."""
    day = values[-1]
    part = of.op
    if len(values) > 1:
        name = values[0].term
        if not isinstance(name, Constant):
            raise unsupported(f"{of.name} with a part that is no constant")
        part = str(name.value).lower().removesuffix("s")
        part = f"trunc {part}" if of.op in ("date_trunc", "datetrunc") else part
    if day.null is TRUE:
        return value_of(constant(of.type, None))
    if isinstance(day.term, Ratio) or day.term.type.kind != "date":
        raise unsupported(f"{of.name} of a value that is no date")
    return Value(dates.part_of(part, day.term), day.null)


def _date_diff(of: Expression, part: Value, first: Value, last: Value) -> Value:
    name = part.term.value if isinstance(part.term, Constant) else ""
    if TRUE in (first.null, last.null):
        return Value(number(0), TRUE)
    one, other = first.term, last.term
    if isinstance(one, Ratio) or isinstance(other, Ratio) or {one.type.kind, other.type.kind} != {"date"}:
        raise unsupported(f"{of.name} of a value that is no date")
    difference = dates.difference(str(name).lower(), one, other)
    return Value(difference, either(first.null, last.null))


FUNCTIONS: dict[str, Callable[..., Cell]] = {
    "+": arithmetic("add"), "-": arithmetic("subtract"), "*": arithmetic("multiply"), "/": arithmetic("divide"),
    "abs": of_number(numbers.absolute), "@": of_number(numbers.absolute), "sign": of_number(numbers.sign),
    "//": whole_quotient, "%": of_whole_numbers(numbers.remainder),
    "mod": of_whole_numbers(numbers.remainder), "round": rounding, "floor": of_number(numbers.floored),
    "ceil": of_number(numbers.ceiled), "ceiling": of_number(numbers.ceiled),
    "trunc": of_number(numbers.truncated_to_whole),
    "greatest": partial(best_of, largest=True), "least": partial(best_of, largest=False),
    "~~": matches(lambda text: text), "!~~": matches(lambda text: text, negation=True),
    **dict.fromkeys(("prefix", "starts_with", "^@"), matches(lambda text: f"{text}%")),
    **dict.fromkeys(("suffix", "ends_with"), matches(lambda text: f"%{text}")),
    "contains": matches(lambda text: f"%{text}%"),
    "substring": substring, "substr": substring, "left": left,
    **dict.fromkeys(("upper", "ucase"), of_words(str.upper)), **dict.fromkeys(("lower", "lcase"), of_words(str.lower)),
    "date_part": _of_date, "datepart": _of_date, "date_trunc": _of_date, "datetrunc": _of_date,
    "date_diff": _date_diff, "datediff": _date_diff, "last_day": _of_date, **dict.fromkeys(dates.PARTS, _of_date),
}  # fmt: skip
