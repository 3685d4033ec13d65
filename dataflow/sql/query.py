"""Maintained queries from SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.passes.optimize import optimized
from deltamark.dataflow.scalars.problems import ExpressionError
from deltamark.dataflow.scalars.values import DOUBLES, as_double
from deltamark.dataflow.sql.planner import planned
from deltamark.dataflow.sql.problems import in_sql, together
from deltamark.dataflow.sql.reader import Reader
from deltamark.dataflow.sql.written import Written
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class Query:
    """The collection that a text describes, and the columns of its SELECT list."""

    collection: Collection
    types: Mapping[str, str]
    """The distinct names of the columns, and their types in DuckDB."""
    names: Sequence[str]
    """The names of the columns as the text has them."""


def sql(text: str, relations: Mapping[str, Collection]) -> Collection:
    """Return the collection that a query of SQL describes, over relations by the names that the text gives them.

    `sql("SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop", {"sales": sales})`

    A column that DuckDB gives the type DOUBLE is an exact quotient, in the two columns `name.num` and `name.den`, or a
    column of type DOUBLE. ORDER BY has an effect if there is a LIMIT; the remaining columns break ties.
    """
    return query(text, relations).collection


def query(text: str, relations: Mapping[str, Collection], views: Mapping[str, str] = MappingProxyType({})) -> Query:
    """Read a query as `sql` does. views: the texts of views that it may read; each may read those before it."""
    if not relations:
        raise DeltamarkError("no relations for a query of SQL", relations, "give {name: collection}")
    for readable in (
        text,
        *views,
        *views.values(),
        *relations,
        *(name for each in relations.values() for name in each.schema.names),
    ):
        _refuse_unreadable(readable)
    try:
        written = Written(text)
        plan, columns, names = planned(written, {name: each.schema for name, each in relations.items()}, views)
        reader = Reader(plan, relations, written)
        rows = reader.rows()
        if reader.problems:
            raise together(reader.problems)
        cells = [
            as_double(cell) if type_ in DOUBLES else cell
            for cell, type_ in zip(rows.cells, columns.values(), strict=True)
        ]
        answer = rows.with_cells(cells).stored(list(columns)).collection
        return Query(Collection(optimized(answer.node, reader.whole)), columns, names)
    except ExpressionError as error:
        raise together([in_sql(error)]) from error
    except RecursionError as error:
        raise DeltamarkError("not supported in SQL", "a query nested so deeply", "write a flatter query") from error


def _refuse_unreadable(text: object) -> None:
    """Raise an error for a text or a name that is no string, or that has no form in UTF-8."""
    if not isinstance(text, str):
        raise DeltamarkError("not a text of SQL", f"a value of type {type(text).__name__}", "give a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        character = ascii(text[error.start])
        raise DeltamarkError("a character that is no text in UTF-8", character, "leave it out") from error
