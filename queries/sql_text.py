"""Dataflows made of the SQL of a query: a variant of each query, and the only one of a query in a file of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.dataflow.sql import front_end
from deltamark.errors import DeltamarkError, naming
from deltamark.queries.query import Parameters, ParameterValue, Plan, Query, Tables

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection

VARIANT = "sql"


def from_text(query: Query) -> Plan:
    """Return the dataflow that a query's SQL describes, with the names of columns that the default dataflow has."""

    def plan(relations: Tables, **values: ParameterValue) -> Collection:
        from deltamark.dataflow.sql.query import sql  # noqa: PLC0415 (it loads the compiler)

        found = sql(query.text(values), relations.as_in_sql)
        if query.default == VARIANT:
            return found
        names = query.variants[query.default](relations, **values).schema.names
        return found.rename(**dict(zip(names, found.schema.names, strict=True)))

    return plan


class SqlFile(Query):
    """A query that is only given as SQL."""

    def oracle(self, values: Parameters) -> str:
        return f"SELECT * FROM (\n{self.text(values)}\n) ORDER BY ALL"  # noqa: S608 (it is the user's own SQL)

    def reads(self, relations: Iterable[str]) -> tuple[str, ...]:
        """Return the relations that the SQL reads; all, if it has other names or cannot be parsed, which its plan
        reports.
        """
        import duckdb  # noqa: PLC0415 (it takes a while to load)

        by_name = {name.lower(): name for name in relations}
        try:
            found = {name.lower() for name in front_end.parser().get_table_names(self.text({}))}
        except duckdb.Error:
            return tuple(sorted(by_name.values()))
        if not found <= by_name.keys():
            return tuple(sorted(by_name.values()))
        return tuple(sorted(by_name[name] for name in found)) or (min(by_name.values()),)


def _check_statement(path: Path, text: str) -> None:
    """Raise an error unless a text is one SELECT statement."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    try:
        types = [statement.type for statement in front_end.parser().extract_statements(text)]
    except duckdb.Error as error:
        message = str(error).removeprefix("Parser Error: ")
        line = re.search(r"^LINE (\d+)", message, re.MULTILINE)
        problem = f"{message.splitlines()[0]} in {path}{f', line {line[1]}' if line else ''}"
        raise DeltamarkError("not a query", problem, "correct the text") from error
    if len(types) != 1:
        raise DeltamarkError("not one statement in a file", f"{path}: {len(types)}", "write one SELECT statement")
    if types[0] not in (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI):
        raise DeltamarkError("no SELECT in a file", f"{path}: {types[0].name}", "write one SELECT statement")


def read_sql(path: Path, translated: Callable[[str], str] = str.strip) -> SqlFile:
    """Read a file of SQL. translated: translates the text into DuckDB's dialect."""
    try:
        with naming(path):
            text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DeltamarkError("not a text in UTF-8", f"{path}: {error.reason}", "write one SELECT statement") from error
    if not text.strip():
        raise DeltamarkError("no SQL in a file", path, "write one SELECT statement")
    text = translated(text.strip().rstrip("; \n"))
    _check_statement(path, text)
    found = SqlFile(text.replace("{", "{{").replace("}", "}}"))  # they are those of the SQL
    found.variants[VARIANT] = from_text(found)
    return found
