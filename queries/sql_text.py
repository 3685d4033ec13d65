"""Dataflows made of the SQL of a query: a variant of each query, and the only one of a query in a file of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.sql.query import sql
from deltamark.datagen.schema import RELATIONS, relation
from deltamark.errors import DeltamarkError, naming
from deltamark.queries.parameter_text import ParameterValue
from deltamark.queries.query import Parameters, Plan, Query, Tables

VARIANT = "sql"


def from_text(query: Query) -> Plan:
    """Return the dataflow that a query's SQL describes, with the names of columns that the default dataflow has."""

    def plan(tpch: Tables, **values: ParameterValue) -> Collection:
        found = sql(Query.oracle(query, values), with_prefixes(tpch.by_name))
        if query.default == VARIANT:
            return found
        names = query.variants[query.default](tpch, **values).schema.names
        return found.rename(**dict(zip(names, found.schema.names, strict=True)))

    return plan


def with_prefixes(relations: Mapping[str, Collection]) -> dict[str, Collection]:
    """Give the columns of relations the names that the specification does: `l_orderkey` of `lineitem`."""
    return {
        name: each.rename(**{f"{relation(name).prefix}{column}": column for column in each.schema.names})
        for name, each in relations.items()
    }


class SqlFile(Query):
    """A query that is only given as SQL, without parameters."""

    def oracle(self, values: Parameters) -> str:
        """Return the SQL with an order of all columns, so that answers can be compared row by row."""
        return f"SELECT * FROM (\n{super().oracle(values)}\n) ORDER BY ALL"  # noqa: S608 (it is the user's own SQL)

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """The relations that the SQL reads; all, if it has other names or cannot be parsed, which its plan reports."""
        import duckdb  # noqa: PLC0415 (it takes a while to load)

        try:
            names = duckdb.get_table_names(self.sql.format())
        except duckdb.Error:
            return tuple(sorted(RELATIONS))
        found = {name.lower() for name in names}
        if not found <= RELATIONS.keys():
            return tuple(sorted(RELATIONS))
        return tuple(sorted(found)) or ("region",)


def read_sql(path: Path) -> SqlFile:
    """Read a file of SQL."""
    try:
        with naming(path):
            text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DeltamarkError("not a text in UTF-8", f"{path}: {error.reason}", "write one SELECT statement") from error
    if not text.strip():
        raise DeltamarkError("no SQL in a file", path, "write one SELECT statement")
    found = SqlFile(text.strip().rstrip(";").replace("{", "{{").replace("}", "}}"))
    found.variants[VARIANT] = from_text(found)
    return found
