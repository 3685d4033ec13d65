"""What a query is: its SQL with named parameters, and the dataflows that maintain its answer.

A dataflow takes the relations by name and the parameters as keywords. An output column that SQL divides is the pair
`name.num`, `name.den`, divided by whoever reads it.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from deltamark.dataflow.language.collection import Collection
from deltamark.errors import unknown

Tables = Mapping[str, Collection]
Plan = Callable[..., Collection]
Value = int | Decimal | dt.date | str | tuple[int, ...] | tuple[str, ...]
Parameters = Mapping[str, Value]


@dataclass(frozen=True)
class Query:
    """A query of the benchmark.

    `order` is SQL's ORDER BY in columns of the dataflow ("-name" descends); the remaining columns break ties. The
    first of `variants` is the default. The rows of a variant named in `accumulated` are not the answer: that
    function makes the answer of them.
    """

    sql: str
    relations: tuple[str, ...]
    variants: Mapping[str, Plan]
    order: tuple[str, ...] = ()
    accumulated: Mapping[str, Callable[[Collection], Collection]] = field(default_factory=dict)

    @property
    def default(self) -> str:
        return next(iter(self.variants))

    def plan(self, variant: str, tables: Tables, parameters: Parameters) -> Collection:
        """Build the dataflow of a variant."""
        return self.variants[self.known(variant)](tables, **parameters)

    def known(self, variant: str) -> str:
        """Return a variant's name, if it has one."""
        if variant not in self.variants:
            raise unknown("variant", variant, self.variants)
        return variant

    def oracle(self, parameters: Parameters) -> str:
        """Return the SQL with the parameters filled in."""
        return self.sql.strip().format_map({name: literal(value) for name, value in parameters.items()})


def literal(value: Value) -> str:
    """Write a value as SQL does."""
    match value:
        case dt.date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case tuple():
            return f"({', '.join(map(literal, value))})"
    return str(value)


def months_later(date: dt.date, months: int) -> dt.date:
    """Add months to a date as SQL does: a day that the month lacks becomes its last."""
    years, month = divmod(date.month - 1 + months, 12)
    year, month = date.year + years, month + 1
    return dt.date(year, month, min(date.day, calendar.monthrange(year, month)[1]))
