"""Texts of queries in packages, which are translated into DuckDB's dialect and put into a total order.

A text that was not written for comparisons leaves to the engine where NULL comes in its order, and which of several
equal rows are the last ones of a LIMIT. So its ORDER BY is completed: every engine keeps the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deltamark.dataflow.sql.front_end import without_threads
from deltamark.datagen.schema import ColumnKind, Relation
from deltamark.harness.benchmarks.packages import Packages

if TYPE_CHECKING:
    import duckdb

Dialect = tuple[tuple[str, str], ...]
"""Regular expressions, and the texts that replace their matches."""

TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|`[^`]*`|--[^\n]*|\w+|\S""")
NAMED = re.compile(r"(\w+)(?:\s+(?:ASC|DESC))?", re.IGNORECASE)
"""A key that is a column of the answer."""

TYPES: Mapping[ColumnKind, str] = {
    "int": "BIGINT", "decimal": "DECIMAL({0.digits}, {0.scale})", "double": "DOUBLE", "date": "DATE",
    "timestamp": "TIMESTAMP", "code": "VARCHAR", "text": "VARCHAR",
}  # fmt: skip
"""The types of columns in DuckDB."""

QUOTIENTS = ("DOUBLE", "FLOAT")
"""The types of columns that break no ties: engines round them differently."""


@dataclass(frozen=True)
class PackagedTexts:
    """pattern: of the paths of the files in the packages."""

    packages: Packages
    pattern: str
    dialect: Dialect

    @property
    def files(self) -> list[Path]:
        return self.packages.files(self.pattern)

    def translation(self, relations: Iterable[Relation]) -> Callable[[str], str]:
        """Return a function that translates texts over some relations."""
        database = empty_database(relations)

        def translated(text: str) -> str:
            for expression, replacement in self.dialect:
                text = re.sub(expression, replacement, text)
            return in_total_order(text, database)

        return translated


def empty_database(relations: Iterable[Relation]) -> duckdb.DuckDBPyConnection:
    """Return a database with the columns of relations."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    connection = duckdb.connect(config=without_threads())
    for each in relations:
        columns = (f'"{each.prefix}{c.name}" {TYPES[c.kind].format(c)}' for c in each.columns)
        connection.execute(f'CREATE TABLE "{each.name}" ({", ".join(columns)})')
    return connection


class _Clauses(NamedTuple):
    """The places of the last LIMIT and of its ORDER BY in a text, with the begin and end of each key."""

    begin: int
    keys: list[tuple[int, int]]
    limit: int


def in_total_order(text: str, database: duckdb.DuckDBPyConnection) -> str:
    """Return a text whose LIMIT, if it has one, follows an order by all columns of the answer, with NULL last.

    A text that DuckDB cannot read is returned as it is, because its plan has a better error.
    """
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    found = _clauses(text)
    if found is None:
        return text
    try:
        columns = [(str(name).lower(), type_) for name, type_, *_ in database.execute(f"DESCRIBE {text}").fetchall()]
    except duckdb.Error:
        return text
    keys = [re.sub(r"--[^\n]*", "", text[start:stop]).strip() for start, stop in found.keys]
    named = {match[1].lower() for key in keys if (match := NAMED.fullmatch(key))}
    rest = [
        str(at)
        for at, (name, type_) in enumerate(columns, 1)
        if not (name in named or str(at) in named) and type_ not in QUOTIENTS
    ]
    order = ", ".join(
        key if re.search(r"\bNULLS\s+\w+$", key, re.IGNORECASE) else f"{key} NULLS LAST" for key in (*keys, *rest)
    )
    return f"{text[: found.begin]}ORDER BY {order}\n{text[found.limit :]}" if order else text


def _clauses(text: str) -> _Clauses | None:
    """Find the clauses at the end of a text, outside of parentheses; return nothing if there is no LIMIT."""
    depth, begin, limit = 0, -1, -1
    cuts: list[int] = []
    tokens = [token for token in TOKEN.finditer(text) if not token[0].startswith("--")]
    for token, after in pairwise([*tokens, *tokens[-1:]]):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth:
            continue
        match token[0].upper():
            case "ORDER" if after[0].upper() == "BY":
                begin, cuts = token.start(), [after.end()]
            case ",":
                cuts.append(token.start())
            case "LIMIT":
                limit = token.start()
    if limit < 0:
        return None
    if begin < 0:
        return _Clauses(limit, [], limit)
    first, *commas = (cut for cut in cuts if cut < limit)
    starts, stops = [first, *(comma + 1 for comma in commas)], [*commas, limit]
    return _Clauses(begin, list(zip(starts, stops, strict=True)), limit)
