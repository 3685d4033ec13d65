"""Tables of the database: their columns in DuckDB and in Arrow, their constraints, and the inputs that they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltamark.dataflow.language.collection import Collection, declared
from deltamark.dataflow.sql.check_bounds import narrowed
from deltamark.dataflow.sql.planner import quoted
from deltamark.dataflow.sql.tables import refuse_collations, sql_type, usual
from deltamark.dataflow.types import Field, Type
from deltamark.errors import DeltamarkError, unknown

if TYPE_CHECKING:
    import duckdb

NAMES = """
SELECT table_name FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = 'main' AND NOT temporary ORDER BY table_name
"""

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default IS NOT NULL OR is_generated
FROM duckdb_columns() JOIN duckdb_tables() USING (table_oid, table_name, schema_name, database_name)
WHERE database_name = current_database() AND schema_name = 'main' AND lower(table_name) = lower(?) ORDER BY column_index
"""

CONSTRAINTS = """
SELECT constraint_type, expression, constraint_column_names
FROM duckdb_constraints() WHERE database_name = current_database() AND schema_name = 'main' AND table_name = ?
ORDER BY constraint_type, constraint_index
"""

UNIQUE = """
SELECT count(*) FROM duckdb_indexes()
WHERE database_name = current_database() AND schema_name = 'main' AND table_name = ? AND is_unique
"""

CHECKED = ("CHECK", "FOREIGN KEY", "PRIMARY KEY", "UNIQUE")
"""The constraints that DuckDB checks when rows are inserted. NOT NULL is checked before."""


KEYS = ("PRIMARY KEY", "UNIQUE")


@dataclass(frozen=True)
class Table:
    """A table, as its declaration has it."""

    name: str
    types: Mapping[str, str]
    """The types of the columns in SQL."""
    schema: pa.Schema
    required: frozenset[str]
    """The columns that are NOT NULL."""
    filled: frozenset[str]
    """The columns that have a DEFAULT, or are generated."""
    key: tuple[str, ...]
    """The columns of the PRIMARY KEY."""
    has_one_key: bool
    """Whether the PRIMARY KEY is the only reason for which DuckDB may refuse equal values."""
    is_checked: bool
    """Whether DuckDB has to check constraints when rows are inserted."""
    collection: Collection
    """The input that the table is, with those of its columns that the engine can have."""
    absent: Mapping[str, DeltamarkError]
    """The columns that the engine cannot have, with the reasons."""

    @property
    def quoted(self) -> str:
        return quoted(self.name)


class Catalog:
    """The tables of a database, which are looked up when they are first needed. rows: the most live rows of each."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, rows: int) -> None:
        self._connection, self._rows = connection, rows
        self._known: dict[str, Table] = {}

    def forget(self) -> None:
        """Look up all tables anew, because a declaration may have changed."""
        self._known.clear()

    def names(self) -> list[str]:
        return [name for (name,) in self._connection.execute(NAMES).fetchall()]

    def find(self, name: str) -> Table | None:
        """Return the table of a name, without regard to case; None if there is none."""
        folded = name.lower()
        if folded not in self._known:
            columns = self._connection.execute(COLUMNS, [name]).fetchall()
            if not columns:
                return None
            self._known[folded] = self._table(columns)
        return self._known[folded]

    def __getitem__(self, name: str) -> Table:
        table = self.find(name)
        if table is None:
            raise unknown("table", name, self.names())
        return table

    def _table(self, columns: Sequence[tuple[str, str, str, bool, bool]]) -> Table:
        name = columns[0][0]
        constraints = self._connection.execute(CONSTRAINTS, [name]).fetchall()
        (unique,) = self._connection.execute(UNIQUE, [name]).fetchall()[0]
        keys = {kind: tuple(names) for kind, _, names in reversed(constraints) if kind in KEYS}
        required = frozenset(column for _, column, _, is_nullable, _ in columns if not is_nullable)
        types, absent = self._types(name, columns)
        for kind, check, _ in constraints:
            if kind == "CHECK":
                types |= self._narrowed(name, check, types)
        sql = {column: type_ for _, column, type_, *_ in columns}
        fields = [Field(column, usual(type_), sql[column]) for column, type_ in types.items()]
        key = next((each for each in keys.values() if required.issuperset(each) and set(each) <= set(types)), ())
        return Table(
            name, sql, self._connection.sql(f"FROM {quoted(name)} LIMIT 0").to_arrow_table().schema, required,
            frozenset(column for _, column, *_, is_filled in columns if is_filled), keys.get("PRIMARY KEY", ()),
            bool(keys) and not unique and [kind for kind, *_ in constraints if kind in KEYS] == ["PRIMARY KEY"],
            bool(unique) or any(kind in CHECKED for kind, *_ in constraints),
            declared(name, fields, self._rows, key), absent,
        )  # fmt: skip

    def _types(
        self, table: str, columns: Iterable[tuple[str, str, str, bool, bool]]
    ) -> tuple[dict[str, Type], dict[str, DeltamarkError]]:
        """Return the types of the columns that the engine can have, and the reasons why it cannot have the others."""
        types: dict[str, Type] = {}
        absent: dict[str, DeltamarkError] = {}
        try:
            refuse_collations(self._connection, table)
        except DeltamarkError as error:
            return {}, {column: error for _, column, *_ in columns}
        for _, column, name, is_nullable, _ in columns:
            try:
                type_ = sql_type(f"{table}.{column}", name)
            except DeltamarkError as error:
                absent[column] = error
            else:
                types[column] = type_.or_null() if is_nullable else type_
        return types, absent

    def _narrowed(self, table: str, check: str, types: Mapping[str, Type]) -> Mapping[str, Type]:
        """Return the bounds that a CHECK states; nothing for another condition, which DuckDB alone enforces."""
        with self._connection.cursor() as cursor, suppress(DeltamarkError):
            return narrowed(cursor, table, check, types)
        return {}
