"""A database of ours beside a plain DuckDB, which gets the same statements, and recomputes every view."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Self

import duckdb

from deltamark import DeltamarkError, connect

DIGITS = 9
"""The digits in which doubles are compared: DuckDB rounds after each row."""


class Twins:
    """Two databases with the same tables and views."""

    def __init__(self, *declarations: str) -> None:
        self.ours, self.theirs = connect(), duckdb.connect()
        self.views: list[str] = []
        for each in declarations:
            self.run(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.theirs.close()

    def run(self, text: str, parameters: Sequence[object] = ()) -> bool:
        """Run a statement in both; return whether it succeeded, which it must in both or in none."""
        failures = []
        for run, kind in ((self.ours.execute, DeltamarkError), (self.theirs.execute, duckdb.Error)):
            try:
                run(text, list(parameters) or None)
            except kind as error:
                failures.append(error)
        assert len(failures) in (0, 2), (text, parameters, failures)
        return not failures

    def create(self, name: str, query: str) -> None:
        """Create a view, which is no view of DuckDB's if a later statement of a transaction fails."""
        assert self.run(f"CREATE VIEW {name} AS {query}")
        self.views.append(name)

    def drop(self, name: str) -> None:
        assert self.run(f"DROP VIEW {name}")
        self.views.remove(name)

    def check(self, *names: str) -> None:
        """Compare the rows of views or tables, and the types of their columns."""
        for name in names or self.views:
            mine, theirs = self.ours.execute(f"SELECT * FROM {name}"), self.theirs.sql(f"SELECT * FROM {name}")
            assert (mine.columns, mine.types) == (theirs.columns, list(map(str, theirs.types)))
            assert counted(mine.fetchall()) == counted(theirs.fetchall()), name


def counted(rows: Sequence[Sequence[object]]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(map(_rounded, row)) for row in rows)


def _rounded(value: object) -> object:
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Decimal):
        return str(value)
    return repr(value) if isinstance(value, float | list) else value
