"""A query: its SQL with named parameters, and the dataflows that maintain its answer."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from deltamark.errors import DeltamarkError, shortened, unknown

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection

ParameterValue = int | Decimal | dt.date | str | tuple[int, ...] | tuple[str, ...]
Plan: TypeAlias = "Callable[..., Collection]"
DrawValue = Callable[[Random], ParameterValue]
Parameters = Mapping[str, ParameterValue]

NO_RELATION = re.compile(r"'[^']*'|\{\w+\}|\bAS\s+\w+|--.*", re.IGNORECASE)
"""Literals, parameters, names that SQL gives, and comments: a relation's name in them is no reference to it."""

NAME = re.compile(r"(?<![\w.])\w+(?![\w.(])")
"""A name that is neither qualified nor a function."""


class Tables:
    """The relations of a query as inputs: `tpch.lineitem`.

    prefixes: by relation, what begins the names of its columns in SQL, as in `l_orderkey`.
    """

    def __init__(self, relations: Mapping[str, Collection], prefixes: Mapping[str, str]) -> None:
        self._relations = relations
        self._prefixes = prefixes

    def __getattr__(self, name: str) -> Collection:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._relations:
            raise unknown("relation of the query's SQL", name, self._relations)
        return self._relations[name]

    @property
    def as_in_sql(self) -> dict[str, Collection]:
        """The relations by name, whose columns have the names that SQL gives them."""
        return {
            name: each.rename(**{f"{prefix}{column}": column for column in each.schema.names}) if prefix else each
            for name, each in self._relations.items()
            for prefix in [self._prefixes.get(name, "")]
        }


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query.

    validation: the value whose answer the specification gives; draw: draws another one.
    """

    validation: ParameterValue
    draw: DrawValue | None = None


@dataclass(frozen=True)
class Query:
    """A query of the benchmark. Decorate the functions that build its dataflows with `variant`.

    order_by is SQL's ORDER BY in columns of the dataflow ("-name" descends); the remaining columns break ties.
    draw: draws all parameters at once, if they depend on each other. per_scale_factor: the parameters whose value is
    multiplied by the scale factor.
    """

    sql: str
    order_by: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    draw: Callable[[Random], Parameters] | None = None
    per_scale_factor: frozenset[str] = frozenset()
    variants: dict[str, Plan] = field(default_factory=dict)
    accumulated: dict[str, Callable[[Collection], Collection]] = field(default_factory=dict)

    def variant(self, plan: Plan) -> Plan:
        """Add a dataflow, under its function's name. The first one is the default."""
        self.variants[plan.__name__.replace("_", "-")] = plan
        return plan

    def changes(self, accumulate: Callable[[Collection], Collection]) -> Callable[[Plan], Plan]:
        """Add a dataflow whose rows the reader must accumulate to get the answer."""

        def add(plan: Plan) -> Plan:
            self.accumulated[plan.__name__.replace("_", "-")] = accumulate
            return self.variant(plan)

        return add

    @property
    def default(self) -> str:
        return next(iter(self.variants))

    def reads(self, relations: Iterable[str]) -> tuple[str, ...]:
        """Return those of some relations that the SQL reads."""
        names = set(NAME.findall(NO_RELATION.sub("", self.sql).lower()))
        return tuple(sorted(name for name in relations if name.lower() in names))

    def plan(self, variant: str, relations: Tables, values: Parameters) -> Collection:
        """Build the dataflow of a variant."""
        return self.variants[self.known(variant)](relations, **values)

    def known(self, variant: str) -> str:
        """Return the name of a variant; raise an error if the query has no such variant."""
        if variant not in self.variants:
            raise unknown("variant", variant, self.variants)
        return variant

    def text(self, values: Parameters) -> str:
        """Return the SQL with the parameters filled in."""
        return self.sql.strip().format_map({name: literal(value) for name, value in values.items()})

    def oracle(self, values: Parameters) -> str:
        """Return the SQL of the answer with its rows in order, so that answers can be compared row by row."""
        return self.text(values)

    def values(self, scale_factor: Decimal, chance: Random | None = None) -> Parameters:
        """Return the validation values, or, with `chance`, drawn ones."""
        values: dict[str, ParameterValue] = {name: each.validation for name, each in self.parameters.items()}
        values |= {name: scale_factor * Decimal(str(values[name])) for name in self.per_scale_factor}
        if chance is None:
            return values
        if self.draw is not None:
            return {**values, **self.draw(chance)}
        return values | {name: each.draw(chance) for name, each in self.parameters.items() if each.draw is not None}

    @property
    def draws(self) -> bool:
        """Whether the specification gives ranges for any parameter."""
        return self.draw is not None or any(each.draw is not None for each in self.parameters.values())


def literal(value: ParameterValue) -> str:
    """Write a value as a literal of SQL."""
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


FIRST_DAY, LAST_DAY = dt.date(1900, 1, 1), dt.date(2100, 12, 31)
"""The bounds of dates: queries add months and years to them."""

MAX_WHOLE, MAX_DECIMAL, MAX_PLACES = 100_000, 10**12, 12
"""The bounds of whole numbers (days, sizes, quantities) and of decimals, and the most decimal places."""


def read_value(name: str, text: str, like: ParameterValue) -> ParameterValue:
    """Parse the value of a parameter as the type of another value, and check it against bounds."""
    try:
        match like:
            case dt.date():
                value: ParameterValue = dt.date.fromisoformat(text)
            case tuple():
                words = [each.strip() for each in text.split(",")]
                value = tuple(map(int, words)) if isinstance(like[0], int) else tuple(words)
            case _:
                value = type(like)(text)
    except (ValueError, InvalidOperation) as error:
        raise DeltamarkError(f"not a value of {name}", shortened(text), f"write one such as {shown(like)}") from error
    for each in value if isinstance(value, tuple) else (value,):
        _check(name, text, each)
    return value


def _check(name: str, text: str, value: ParameterValue) -> None:
    """Refuse a number or a date that no query can compute with."""
    cause, said = f"a value of {name} out of bounds", shortened(text)
    match value:
        case dt.date() if not FIRST_DAY <= value <= LAST_DAY:
            raise DeltamarkError(cause, said, f"write one from {FIRST_DAY} to {LAST_DAY}")
        case int() if abs(value) > MAX_WHOLE:
            raise DeltamarkError(cause, said, f"write one from -{MAX_WHOLE} to {MAX_WHOLE}")
        case Decimal() if not (value.is_finite() and abs(value) <= MAX_DECIMAL and value == round(value, MAX_PLACES)):
            remedy = f"write one from -{MAX_DECIMAL} to {MAX_DECIMAL} with at most {MAX_PLACES} decimal places"
            raise DeltamarkError(cause, said, remedy)


def shown(value: ParameterValue) -> str:
    """Write a value as `read_value` parses it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
