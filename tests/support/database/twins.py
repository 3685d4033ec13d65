"""A database of ours beside a plain DuckDB, which gets the same statements, and recomputes every view."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Self

import duckdb
import pytest

from deltamark import DeltamarkError, connect
from deltamark.database.subscriptions import Subscription

DIGITS = 9
"""The digits in which doubles are compared: DuckDB rounds after each row."""


class Twins:
    """Two databases with the same tables and views. Ours is in a file, or in memory without a folder for it."""

    def __init__(self, *declarations: str, folder: Path | None = None, durable: bool = False) -> None:
        self.durable, self.opened = durable, 0
        self.path = None if folder is None else folder / "0.db"
        self.ours = connect() if self.path is None else connect(self.path, durable=durable)
        self.theirs = duckdb.connect()
        self.views: list[str] = []
        self.followed: dict[str, tuple[Subscription, Counter[tuple[object, ...]]]] = {}
        """The subscription to each view, and the sum of its changes."""
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
        self.follow(name)

    def follow(self, name: str) -> None:
        self.followed[name] = self.ours.subscribe(name, snapshot=True), Counter()

    def drop(self, name: str) -> None:
        assert self.run(f"DROP VIEW {name}")
        self.views.remove(name)
        with pytest.raises(DeltamarkError, match="was dropped"):
            self.changed(name)

    def restart(self) -> None:
        """Open a copy of our database: as a kill leaves the file if it is durable, or as `close` leaves it."""
        assert self.path is not None
        old, self.opened = self.path, self.opened + 1
        self.path = old.with_name(f"{self.opened}.db")
        if not self.durable:
            self.ours.close()
        for each in old.parent.glob(f"{old.name}*"):
            shutil.copy(each, each.with_name(each.name.replace(old.name, self.path.name)))
        self.ours.close()
        self.ours = connect(self.path, durable=self.durable)
        for name in self.views:
            self.follow(name)

    def changed(self, name: str) -> Counter[tuple[object, ...]]:
        """Return the rows that the changes of a view sum up to since the subscription."""
        subscription, total = self.followed[name]
        while (each := subscription.read(timeout=0)) is not None:
            rows = each.fetchall()
            assert len({row[2:] for row in rows}) == len(rows)
            for _, diff, *row in rows:
                total[tuple(row)] += diff
        assert all(count >= 0 for count in total.values())
        return +total

    def check(self, *names: str) -> None:
        """Compare the rows of views or tables, and the types of their columns."""
        for name in names or self.views:
            mine, theirs = self.ours.execute(f"SELECT * FROM {name}"), self.theirs.sql(f"SELECT * FROM {name}")
            assert (mine.columns, mine.types) == (theirs.columns, list(map(str, theirs.types)))
            rows = mine.fetchall()
            assert counted(rows) == counted(theirs.fetchall()), name
            if name in self.views:
                assert self.changed(name) == Counter(rows), name


def counted(rows: Sequence[Sequence[object]]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(map(_rounded, row)) for row in rows)


def _rounded(value: object) -> object:
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Decimal):
        return str(value)
    return repr(value) if isinstance(value, float | list) else value
