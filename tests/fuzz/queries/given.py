"""Checks of a given query over random changes of given tables."""

from __future__ import annotations

from collections.abc import Sequence

from support.random_plans.choices import Seeded
from support.random_plans.streams import cut

from fuzz.queries.example import Queries
from fuzz.queries.parts import Part
from fuzz.queries.tables import Table, changing
from fuzz.tally import TALLY

TIMES = (0, 1, 2, 5, 6, 9, 12)


def check(text: str, tables: Sequence[Table], seed: int, workers: int = 1) -> None:
    """Compare the maintained answer with DuckDB's after every logical time."""
    choices = Seeded(seed)
    changed = tuple(changing(choices, each, TIMES) for each in tables)
    given = Queries(Part("query", (text,)), changed, cut(choices, TIMES), slice_rows=64, workers=workers)
    TALLY.clear()
    given.run()
    assert TALLY["queries: times"] == len(given.times), TALLY
