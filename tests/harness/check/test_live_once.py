"""A workload of a user may change rows in any order, but a row is live at most once."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.datagen.feed import TIMES_PER_ROUND
from deltamark.datagen.workloads.workload import Workload, in_one_round
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.oracle import LiveRows, Oracle, moment_after, oracle_answers


class Listed(Workload):
    """The workload of a list of changes of lineitem: the rows that each round inserts (1) or retracts (-1)."""

    def __init__(self, changes, dataset):
        self.name, self.dataset, self.rounds, self._changes = "listed:1", dataset, len(changes), changes

    def most_live(self, name):
        return self.dataset.rows(name)

    def pieces(self, name, start, stop):
        if name != "lineitem":
            return []
        changes = enumerate(self._changes[start:stop], start)
        return [in_one_round(np.array(rows), diff, round_) for round_, (rows, diff) in changes]


def violation(changes):
    """Return the kind of the first violation of the law, or nothing."""
    live = set()
    for rows, diff in changes:
        for row in rows:
            if (row in live) == (diff > 0):
                return "inserted while it is live" if diff > 0 else "retracted while it is not live"
            live ^= {row}
    return ""


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.sampled_from([1, -1])), max_size=5))
def test_the_oracle_has_the_live_rows_or_names_one_that_is_not_live_once(chunked, changes):
    work, expected = Listed([*changes, ([9], 1)], chunked), violation(changes)
    live = LiveRows(work, "lineitem", 1)
    if expected:
        with pytest.raises(DeltamarkError, match=rf"a row is {expected}: the row at position \d of lineitem; "):
            live.move(work.rounds * TIMES_PER_ROUND)
        return
    live.move(work.rounds * TIMES_PER_ROUND)
    times_changed = Counter(row for rows, _ in changes for row in rows)
    assert np.flatnonzero(live.mask).tolist() == [*sorted(row for row, times in times_changed.items() if times % 2), 9]


def test_a_workload_that_inserts_a_row_twice_is_an_error_that_names_the_row(chunked):
    twice = Listed([([5, 6], 1), ([5], 1), ([5], -1)], chunked)
    expected = "listed:1: a row is inserted while it is live: the row at position 5 of lineitem; a row is live once: "
    with pytest.raises(DeltamarkError, match=expected):
        oracle_answers(Cell("q06", "0.001", "listed:1"), twice, [moment_after(2)])


def test_rows_that_are_equal_in_the_columns_of_a_query_are_different_rows(chunked):
    first, second = np.flatnonzero(np.diff(chunked.values("lineitem", "orderkey", range(9))) == 0)[0] + np.arange(2)
    work = Listed([([first, second], 1), ([first], -1), ([first], 1), ([second], -1)], chunked)
    with closing(Oracle(work, {"lineitem": ("orderkey",)}, 1)) as oracle:
        counts = []
        for round_ in range(work.rounds):
            oracle.at((round_ + 1) * TIMES_PER_ROUND - 1)
            counts += oracle.answer("SELECT count(*), count(DISTINCT l_orderkey) FROM lineitem")
    assert counts == [(2, 1), (1, 1), (2, 1), (1, 1)]
