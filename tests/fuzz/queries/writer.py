"""The state of a generator of queries, and the names that a part of a query can use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from support.random_plans.choices import Choices

from deltamark.dataflow.types import Field, Schema
from fuzz.queries.parts import Part

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Named:
    """A column that can be used: its text, and the sort of its values."""

    text: str
    sort: str


@dataclass(frozen=True)
class Scope:
    """The columns of an expression. outer: those of the query around; rows: those of the rows in a group."""

    columns: tuple[Named, ...] = ()
    nest: int = 0
    """The levels of subqueries that an expression may have."""
    outer: Scope | None = None
    rows: Scope | None = None
    links: tuple[Part, ...] = ()
    """The conditions of joins that a WHERE must have."""

    def of(self, sort: str) -> list[str]:
        return [each.text for each in self.columns if each.sort == sort]

    def flat(self) -> Scope:
        """Return the scope of expressions without subqueries and without columns of a query around."""
        return replace(self, nest=0, outer=None, links=())


@dataclass
class Writer:
    """The choices of a generator, the tables that queries can read, and a counter for names."""

    choices: Choices
    tables: list[tuple[str, list[Named]]]
    avoided: frozenset[str] = frozenset()
    """Constructs that are not drawn, where the generator decides about them."""
    count: int = 0
    ctes: list[tuple[str, list[Named]]] = field(default_factory=list)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def chance(self, percent: int, *constructs: str) -> bool:
        """Draw whether one of some constructs is written; never if all of them are avoided."""
        return self.choices.chance(percent) and not (constructs and self.avoided.issuperset(constructs))

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return self.choices.pick(choices)

    def weighted(self, choices: dict[Choice, int]) -> Choice:
        """Pick one of the choices that are not avoided, or of all if all are."""
        kept = {each: weight for each, weight in choices.items() if each not in self.avoided} or choices
        return self.pick([each for each, weight in kept.items() for _ in range(weight)])


def sort_of(field: Field) -> str:
    match field.type.kind:
        case "int":
            return "decimal" if field.type.scale or field.sql.startswith("DECIMAL") else "int"
        case "date":
            return "date"
        case "bool":
            return "truth"
        case "double":
            return "wide" if field.name.startswith("h") else "float"
        case "timestamp":
            return "moment"
        case "timestamptz":
            return "zoned"
        case _:
            return "text"


def read_by(choices: Choices, tables: Mapping[str, Schema], avoided: frozenset[str] = frozenset()) -> Writer:
    return Writer(
        choices,
        [(name, [Named(each.name, sort_of(each)) for each in schema.fields]) for name, schema in tables.items()],
        avoided,
    )


Make = Callable[[Writer, Scope, int], Part]
