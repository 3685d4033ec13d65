"""The law of slices: they become small if operators make many rows of them, and large again if these make few."""

from __future__ import annotations

import pytest
from support.engines.kernel_blocks import Blocks

from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.program import MAX_FAN_OUT, ProgramBlock, adapt_slice

MOST = 8192
"""The most rows of a slice."""


class Slices:
    """The slices of a program whose operators make some rows of each row."""

    def __init__(self, *, rows=MOST, workers=1):
        blocks = Blocks()
        self._made = blocks.cell()
        self._program = blocks.block(
            ProgramBlock, slice_rows=rows, max_slice_rows=MOST, workers=workers, fan_out=self._made,
            **dict.fromkeys(("inputs", "input_blocks", "ops", "calls", "frontier", "stop", "worker", "idle"), 0),
        )  # fmt: skip

    def run(self, made_of_each):
        """Run a slice; return the rows of the next one."""
        view(self._made, 1)[0] = self._program.slice_rows * made_of_each
        adapt_slice(self._program)
        return self._program.slice_rows


@pytest.mark.parametrize("made_of_each", [33, 1000, MAX_FAN_OUT])
def test_the_next_slice_has_few_rows_if_operators_make_many_of_each(made_of_each):
    slices = Slices()
    rows = slices.run(made_of_each)
    assert rows * made_of_each <= MAX_FAN_OUT < (rows + 1) * made_of_each
    assert [slices.run(1) for _ in range(14)][-1] == MOST


def test_a_slice_has_a_row_at_least():
    assert Slices().run(10 * MAX_FAN_OUT) == 1


@pytest.mark.parametrize("kept", [{"workers": 2}, {"rows": 1 << 40}], ids=["several workers", "whole feeds"])
def test_slices_that_must_be_equal_everywhere_keep_their_size(kept):
    rows = kept.get("rows", MOST)
    assert Slices(**kept).run(1000) == rows
