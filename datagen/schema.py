"""Relations: their columns, their links, and how each column is stored.

A source of data states its relations, and a data directory describes them in its manifest. A change of the bytes in the
files, or of the manifest, must raise SCHEMA_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Literal, get_args

import pyarrow as pa

from deltamark.errors import DeltamarkError, shortened, unknown

SCHEMA_VERSION = 4
MIN_SF, MAX_SF, SF_PLACES = Decimal("0.001"), 100_000, 6
"""The bounds of scale factors (the smallest that gives each relation of TPC-H a row; TPC-H's largest), and their
decimal places."""

CHUNK_ROWS = 1 << 20
"""Rows of a file. It is a power of two, so a position is turned into a file and a row by a shift and a mask."""

TIMES_PER_ROUND = 8
"""The logical times of a round. A relation has its own, which is its rank; from the eighth on they share the last."""

ColumnKind = Literal["int", "decimal", "double", "date", "timestamp", "code", "text"]
"""int: int64. decimal: int64 in units of the last place. double: int64 in the order of the numbers (`stored_doubles`
of prebatch.py). date: int32 days since 1970. timestamp: int64 microseconds since 1970. code: int32 into a sorted
dictionary. text: UTF-8 with 32-bit offsets."""

COLUMN_KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)

Role = Literal["events", "fixed", "leaving", "hot"]
"""The part of a relation's rows in workloads.

events: they come and go, together with their members (`window`, `refresh`, `update`). fixed: they stay from round 0 on
in `slide`, and only every second round of `churn` changes them. leaving: they leave and come back in `churn`. hot:
those to which most rows refer leave and come back in `hot`.
"""

ROLES: tuple[Role, ...] = get_args(Role)

NARROW: tuple[ColumnKind, ...] = ("int", "decimal", "date", "timestamp", "code")
"""The kinds of columns that a feed has in as few bytes as their bounds need."""

ARROW_TYPES: dict[ColumnKind, pa.DataType] = {
    "int": pa.int64(),
    "decimal": pa.int64(),
    "double": pa.int64(),
    "date": pa.int32(),
    "timestamp": pa.int64(),
    "code": pa.dictionary(pa.int32(), pa.string(), ordered=True),
    "text": pa.string(),
}

NULL = -(1 << 63)
"""The stored value of a missing number, date or time. A nullable date is an int64, and a missing text Arrow's NULL."""

FIRST_SCHEMA = pa.schema([pa.field("first", pa.int64(), nullable=False)])
"""The schema of the files with the positions of the first members of each row of another relation."""

CHANGES_SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("row", "diff", "round")])
"""The schema of the files with the changes of a relation: the position of a row, 1 or -1, and the round; in order of
their rounds."""

MAX_DIGITS = 18
"""The digits of a decimal that 64 bits hold."""


@dataclass(frozen=True)
class Column:
    """A column. digits, scale: of a decimal, all and after the point."""

    name: str
    kind: ColumnKind
    digits: int = 0
    scale: int = 0
    nullable: bool = False

    @property
    def field(self) -> pa.Field:
        scale = {"scale": str(self.scale)} if self.kind == "decimal" else {}
        type_ = pa.int64() if self.nullable and self.kind == "date" else ARROW_TYPES[self.kind]
        has_nulls = self.nullable and self.kind == "text"
        return pa.field(self.name, type_, has_nulls, metadata={"kind": self.kind, **scale})


@dataclass(frozen=True)
class Relation:
    """A relation.

    key: the columns of the primary key. prefix: begins the names of the columns in SQL, as in `l_orderkey`.
    references: pairs of a column and the relation to whose key it refers; columns that refer to a key of several are
    one text, with spaces between them. member_of: the relation to whose rows the rows of this one belong, in the same
    order, and one after another. changing: the columns that get other values in `update` and `churn`, all at once or in
    turn. repeats_keys: whether two rows have equal values in the key, so that it is no promise to an engine.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    prefix: str = ""
    references: tuple[tuple[str, str], ...] = ()
    member_of: str = ""
    roles: tuple[Role, ...] = ()
    changing: tuple[str, ...] = ()
    in_turn: bool = False
    rank: int = 0
    repeats_keys: bool = False

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def codes(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.kind == "code")

    @cached_property
    def _by_name(self) -> Mapping[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        if name not in self._by_name:
            raise unknown(f"column of {self.name}", name, self._by_name)
        return self._by_name[name]

    def reference_to(self, other: str) -> str:
        """Return the first column, or the columns, that refer to another relation, or an empty string."""
        return next((column for column, to in self.references if to == other), "")


def relation(name: str, prefix: str, key: str, columns: str, **more: Any) -> Relation:
    """Return a relation whose key and columns are words: `price:decimal(9,2) sold:date note:text? kind:code`.

    The values of a column whose word ends in a question mark may be NULL.
    """
    return Relation(name, tuple(map(_column, columns.split())), tuple(key.split()), prefix, **more)


def _column(word: str) -> Column:
    name, _, type_ = word.removesuffix("?").partition(":")
    kind, _, size = type_.removesuffix(")").partition("(")
    digits, scale = map(int, size.split(",")) if size else (0, 0)
    return Column(name, next(each for each in COLUMN_KINDS if each == kind), digits, scale, word.endswith("?"))


class Relations(Mapping[str, Relation]):
    """The relations of a benchmark by name, in the order of their ranks."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        last = TIMES_PER_ROUND - 1
        self._by_name = {each.name: replace(each, rank=min(at, last)) for at, each in enumerate(relations)}

    def __getitem__(self, name: str) -> Relation:
        if name not in self._by_name:
            raise unknown("relation", name, self._by_name)
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def having(self, role: Role) -> list[Relation]:
        """Return the relations with a role."""
        return [each for each in self.values() if role in each.roles]

    @cached_property
    def events(self) -> list[Relation]:
        return self.having("events")

    @cached_property
    def moving(self) -> Mapping[str, str]:
        """The relations of events and their members, each with the relation whose events come and go with its rows."""
        return {name: each.name for each in self.events for name in (each.name, *self.members(each.name))}

    def members(self, name: str) -> list[str]:
        """Return the relations whose rows belong to the rows of another one."""
        return [each.name for each in self.values() if each.member_of == name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relations) and list(self.values()) == list(other.values())

    def __hash__(self) -> int:
        return hash(tuple(self.values()))


def scale_factor(text: str) -> Decimal:
    """Read a scale factor: a decimal number from 0.001 to 100000, exact."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and MIN_SF <= value <= MAX_SF and value == round(value, SF_PLACES)):
        remedy = f"give a number from {MIN_SF} to {MAX_SF} with at most {SF_PLACES} decimal places, such as SF=0.01"
        raise DeltamarkError("not a scale factor", shortened(text), remedy)
    return Decimal(f"{value.normalize():f}")
