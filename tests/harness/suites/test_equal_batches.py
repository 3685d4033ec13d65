"""Cells that would take the whole stream in the same batch are measured once."""

from __future__ import annotations

import pytest

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.suites.grid import GridSettings, grid_cells


def test_equal_batches_are_measured_once():
    settings = GridSettings(
        engines=("embedded",), queries=("q01",), logical=(1, 100, 1000, 10_000), physical=(1, 100, 1000, 10_000)
    )
    cells = grid_cells(settings, rounds=lambda _: 1000)
    found = {(cell.logical, cell.physical) for cell in cells}
    assert len(found) == len(cells)
    assert found == {(1, 1), (1, 100), (1, 1000), (100, 1), (100, 100), (1000, 1)}


def test_other_engines_and_workers_have_their_own_cells():
    settings = GridSettings(queries=("q01", "q02"), physical=(10, 100), workers=(1, 2), engines=("embedded", "duckdb"))
    assert len(grid_cells(settings, rounds=lambda _: 10)) == 8


def test_the_rounds_are_those_in_which_relations_of_the_query_change(chunked):
    rounds = rounds_of(chunked)
    assert rounds(Cell("q01", "0.001")) == chunked.rows("lineitem")
    assert rounds(Cell("q11", "0.001")) == chunked.rows("partsupp")
    assert rounds(Cell("q01", "0.001", "update:30")) == chunked.rows("lineitem") + 30
    assert rounds(Cell("q11", "0.001", "update:30")) == 0, "nothing changes after the load"


def test_cells_without_changes_after_the_load_are_left_out(chunked):
    settings = GridSettings(queries=("q01", "q11"), workload=("update:30",), engines=("embedded",))
    assert {each.query for each in grid_cells(settings, rounds=rounds_of(chunked))} == {"q01"}
    with pytest.raises(DeltamarkError, match=r"no cell has changes after its load: .*q11"):
        grid_cells(GridSettings(queries=("q11",), workload=("update:30",)), rounds=rounds_of(chunked))
