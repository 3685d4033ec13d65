"""The eight relations: ranks, columns, and how each column is stored.

Stored names omit the specification's prefix, which is `Relation.prefix`: `l_orderkey` is `orderkey` of `lineitem`. A
change of the bytes in the files, or of the manifest, must raise SCHEMA_VERSION.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Literal, get_args

import pyarrow as pa

from deltamark.errors import DeltamarkError, shortened, unknown

SCHEMA_VERSION = 2
MIN_SF, MAX_SF, SF_PLACES = Decimal("0.001"), 100_000, 6
"""The specification's largest scale factor; the smallest that gives every relation a row; decimal places."""

CHUNK_ROWS = 1 << 20
"""Rows of a file. It is a power of two, so a position is turned into a file and a row by a shift and a mask."""

RelationName = Literal["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
RELATION_NAMES: tuple[RelationName, ...] = get_args(RelationName)
"""The relations in the order of their ranks."""

ColumnKind = Literal["int", "decimal", "date", "code", "text"]
"""int: int64. decimal: int64 hundredths. date: int32 days since 1970. code: int32 into a sorted dictionary.
text: UTF-8 with 32-bit offsets."""

ARROW_TYPES: dict[ColumnKind, pa.DataType] = {
    "int": pa.int64(),
    "decimal": pa.int64(),
    "date": pa.int32(),
    "code": pa.dictionary(pa.int32(), pa.string(), ordered=True),
    "text": pa.string(),
}


ORDER_LINES_SCHEMA = pa.schema([pa.field("first", pa.int64(), nullable=False)])
"""The schema of the files with the positions of the orders' first lines."""


@dataclass(frozen=True)
class Column:
    name: str
    kind: ColumnKind

    @property
    def field(self) -> pa.Field:
        scale = {"scale": "2"} if self.kind == "decimal" else {}
        return pa.field(self.name, ARROW_TYPES[self.kind], nullable=False, metadata={"kind": self.kind, **scale})


@dataclass(frozen=True)
class Relation:
    name: RelationName
    prefix: str
    key: tuple[str, ...]
    """The columns of the primary key."""
    columns: tuple[Column, ...]

    @property
    def rank(self) -> int:
        return RELATION_NAMES.index(self.name)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def codes(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.kind == "code")

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise unknown(f"column of {self.name}", name, (column.name for column in self.columns))


def _relation(name: RelationName, prefix: str, key: str, columns: str) -> Relation:
    pairs = (word.split(":") for word in columns.split())
    return Relation(name, prefix, tuple(key.split()), tuple(Column(column, kind) for column, kind in pairs))  # type: ignore[arg-type]


RELATIONS: dict[RelationName, Relation] = {
    relation.name: relation
    for relation in (
        _relation(
            "customer", "c_", "custkey",
            "custkey:int name:text address:text nationkey:int phone:text acctbal:decimal mktsegment:code comment:text",
        ),
        _relation(
            "lineitem", "l_", "orderkey linenumber",
            "orderkey:int partkey:int suppkey:int linenumber:int quantity:decimal extendedprice:decimal "
            "discount:decimal tax:decimal returnflag:code linestatus:code shipdate:date commitdate:date "
            "receiptdate:date shipinstruct:code shipmode:code comment:text",
        ),
        _relation("nation", "n_", "nationkey", "nationkey:int name:code regionkey:int comment:text"),
        _relation(
            "orders", "o_", "orderkey",
            "orderkey:int custkey:int orderstatus:code totalprice:decimal orderdate:date orderpriority:code "
            "clerk:text shippriority:int comment:text",
        ),
        _relation(
            "part", "p_", "partkey",
            "partkey:int name:text mfgr:code brand:code type:code size:int container:code retailprice:decimal "
            "comment:text",
        ),
        _relation(
            "partsupp", "ps_", "partkey suppkey",
            "partkey:int suppkey:int availqty:int supplycost:decimal comment:text",
        ),
        _relation("region", "r_", "regionkey", "regionkey:int name:code comment:text"),
        _relation(
            "supplier", "s_", "suppkey",
            "suppkey:int name:text address:text nationkey:int phone:text acctbal:decimal comment:text",
        ),
    )
}  # fmt: skip


def relation(name: str) -> Relation:
    for known in RELATIONS.values():
        if known.name == name:
            return known
    raise unknown("relation", name, RELATIONS)


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
