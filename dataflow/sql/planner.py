"""Planning by DuckDB: it binds a text to tables without rows, decorrelates its subqueries, and returns the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from deltamark.dataflow.scalars.values import DOUBLES
from deltamark.dataflow.sql import front_end
from deltamark.dataflow.sql.fragments import Json, objects, parsed
from deltamark.dataflow.sql.problems import SqlError, unsupported
from deltamark.dataflow.sql.written import Place, Written
from deltamark.dataflow.types import Schema, Type
from deltamark.errors import DeltamarkError, unknown

if TYPE_CHECKING:
    import duckdb

DISABLED = (
    "unused_columns", "column_lifetime", "compressed_materialization", "late_materialization", "build_side_probe_side",
    "join_filter_pushdown", "reorder_filter", "common_aggregate", "statistics_propagation", "in_clause",
    "row_group_pruner", "regex_range", "empty_result_pullup", "distinct_aggregate_rewrite", "grouping_sets",
    "window_rewriter", "window_self_join", "partial_aggregate_pushdown", "partitioned_execution", "remote_pushdown",
    "top_n_window_elimination",
)  # fmt: skip
"""Optimizers that read the rows of tables, that shorten only execution, or whose plans cannot be serialized."""

SORT_KEY = "create_sort_key"
"""The function that DuckDB makes of the order of an aggregate: its arguments are values, each with a direction."""

AVOIDED = {"combine_aggr": "aggregate_reuse", SORT_KEY: "common_subexpressions"}
"""Functions in plans, and the optimizers that are disabled then: one whose plans may combine states of aggregates, and
one that may compute the order of several aggregates below them."""

OPTIMIZED = "true"
UNSERIALIZED = "Failed to bind column reference"
"""How the error begins for an optimized plan that DuckDB cannot serialize; it can serialize the plan before."""

OBSTACLES = ("duplicate_groups", "aggregate_reuse", "common_subplan")
"""Optimizers without which DuckDB can serialize most of these plans."""

OTHER_SELECT = re.compile(r"\s*(describe|desc|show|summarize)\b", re.IGNORECASE)
"""The beginnings of other statements that DuckDB counts as SELECT."""

TOO_DEEP = "Max expression depth limit"
"""How the error begins for more levels than DuckDB reads."""

ROWID = re.compile(r"\browid\b", re.IGNORECASE)

ANY_COLUMN = 2**64 - 1
"""DuckDB's number of the column rowid, which it reads also if the rows of a scan are only counted."""

DECIMAL_DIGITS = 18
"""The most digits of a DECIMAL that DuckDB keeps in 64 bits."""


def planned(
    written: Written, schemas: Mapping[str, Schema], views: Mapping[str, str]
) -> tuple[Json, Mapping[str, str], Sequence[str]]:
    """Return the plan of a query, the distinct names of its columns with their types in DuckDB, and their own names.

    views: the texts of views that it may read, which become parts of the plan.
    """
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    text = written.text
    _refuse_names(schemas)
    with front_end.connect() as connection:
        _disable(connection, DISABLED)
        for name, schema in schemas.items():
            connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(_columns(schema))})")
        for name, body in views.items():
            connection.execute(f"CREATE VIEW {quoted(name)} AS {body}")
        _refuse_other_statements(connection, written)
        plan = _serialized(connection, written, (*schemas, *views))
        if ROWID.search(text) and reads_any_column(plan):
            raise unsupported("the column rowid", written.words(ROWID.pattern))
        try:
            relation = connection.sql(text)
        except duckdb.Error as error:
            raise _refused(str(error)) from error
        types = list(map(str, relation.types))
        return plan, dict(zip(_distinct(relation.columns, types), types, strict=True)), relation.columns


def reads_any_column(node: object) -> bool:
    """Return whether a plan reads a column that DuckDB does not number: the rowid, or any, to count rows."""
    indexes = (index for each in objects(node) for index in each.get("column_indexes", ()))
    return any(each["index"] == ANY_COLUMN for each in indexes)


def _refuse_names(schemas: Mapping[str, Schema]) -> None:
    """Raise an error for names that no text can tell apart: SQL ignores the case of ASCII letters."""
    named = {"relations": tuple(schemas), **{f"columns of {name}": schema.names for name, schema in schemas.items()}}
    for where, names in named.items():
        if not names:
            raise DeltamarkError("a relation without columns in SQL", where.removeprefix("columns of "), "add a column")
        seen: dict[bytes, str] = {}
        for name in names:
            if not name:
                raise DeltamarkError("an empty name in SQL", where, "give a name that a text can write")
            if (folded := name.encode().lower()) in seen:
                actual = f"{seen[folded]} and {name} in the {where}"
                raise DeltamarkError("names that differ only in case, which SQL ignores", actual, "rename one")
            seen[folded] = name


def _disable(connection: duckdb.DuckDBPyConnection, optimizers: Iterable[str]) -> None:
    connection.execute(f"SET disabled_optimizers = '{','.join(optimizers)}'")


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def column_type(type_: Type) -> str:
    """Return the type in SQL of a column that is not declared in SQL."""
    match type_.kind:
        case "int" if type_.scale:
            return f"DECIMAL({DECIMAL_DIGITS}, {type_.scale})"
        case "int":
            return "BIGINT"
        case "date":
            return "DATE"
        case "bool":
            return "BOOLEAN"
        case "double" | "timestamp" | "timestamptz" | "time":
            return type_.kind.upper()
        case _:
            return "VARCHAR"


def _columns(schema: Schema) -> list[str]:
    return [
        f"{quoted(field.name)} {field.sql or column_type(field.type)}{'' if field.type.nullable else ' NOT NULL'}"
        for field in schema.fields
    ]


def _serialized(connection: duckdb.DuckDBPyConnection, written: Written, relations: Iterable[str]) -> Json:
    text = written.text
    serialized = _plan(connection, text, OPTIMIZED)
    if avoided := [optimizer for function, optimizer in AVOIDED.items() if function in serialized]:
        _disable(connection, [*DISABLED, *avoided])
        serialized = _plan(connection, text, OPTIMIZED)
    answer = _parsed(serialized, written)
    if _is_unserialized(answer):
        _disable(connection, [*DISABLED, *AVOIDED.values(), *OBSTACLES])
        answer = _parsed(_plan(connection, text, OPTIMIZED), written)
    if _is_unserialized(answer):
        answer = _parsed(_plan(connection, text, "false"), written)
    if answer["error"]:
        place = written.at(int(answer["position"])) if "position" in answer else None
        if answer.get("type") == "Table":
            missing = unknown("relation", answer["name"], relations)
            raise SqlError(missing.cause, str(missing.actual), missing.remedy, place)
        raise _refused(answer["error_message"], place, answer.get("candidates"))
    plan: Json = answer["plans"][0]
    return plan


def _is_unserialized(answer: Json) -> bool:
    return bool(answer["error"]) and str(answer["error_message"]).startswith(UNSERIALIZED)


def _plan(connection: duckdb.DuckDBPyConnection, text: str, optimize: str) -> str:
    """Return the plan of a text as JSON."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    try:
        row = connection.execute(f"SELECT json_serialize_plan(?, optimize := {optimize})", [text]).fetchone()
    except duckdb.Error as error:
        raise _refused(str(error)) from error
    assert row is not None
    return str(row[0])


def _parsed(serialized: str, written: Written) -> Json:
    try:
        return parsed(serialized)
    except json.JSONDecodeError as error:  # DuckDB writes their values as they are
        raise unsupported("a constant that is NaN, or of type BIGNUM or BIT") from error
    except RecursionError as error:
        construct, remedy = "an AND or an OR of so many conditions", "write IN, or a join with a table of values"
        raise unsupported(construct, written.longest_condition(), remedy) from error


def _refuse_other_statements(connection: duckdb.DuckDBPyConnection, written: Written) -> None:
    """Raise an error unless a text that can be parsed is one SELECT statement without parameters."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    try:
        statements = connection.extract_statements(written.text)
    except duckdb.Error:
        return  # planning names the place
    kinds = [each.type.name for each in statements]
    if kinds == ["SELECT"] and (other := OTHER_SELECT.match(written.code)):
        kinds = [other[1].upper()]
    if kinds != ["SELECT"]:
        names = ", ".join(kinds) if kinds else "no statement"
        raise DeltamarkError("not one SELECT statement of SQL", names, "write one SELECT, with WITH for its parts")
    if statements[0].named_parameters:
        raise unsupported(*written.construct(["a parameter"]), remedy="write its value into the text")


def _refused(message: str, place: Place | None = None, candidates: str | None = None) -> SqlError:
    """Return the error for a text that DuckDB refuses, whose first line says why."""
    first = message.partition("\n")[0].strip()
    if first.startswith(TOO_DEEP):
        return unsupported("more than 1000 levels of expressions, or of queries", place, "write a flatter query")
    is_name = candidates and "(" not in candidates  # else the signatures of a function, which may be many
    return SqlError("not a query", first, f"did you mean {candidates}" if is_name else "correct the text", place)


def _distinct(names: Sequence[str], types: Sequence[str]) -> Iterator[str]:
    """Yield the names of columns, of which repeated ones get a number. A quotient is stored in two columns."""
    taken = set[str]()
    for name, type_ in zip(names, types, strict=True):
        for number in count(1):
            new = name if number == 1 else f"{name}_{number}"
            stored = {f"{new}.num", f"{new}.den"} if type_ in DOUBLES else {new}
            if not taken & {new, *stored}:
                break
        taken |= {new, *stored}
        yield new
