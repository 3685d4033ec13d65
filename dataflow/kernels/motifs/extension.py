"""Extension of rows by a column: by each value that all of several indexes have under the row's key.

One index proposes values, and the others validate each of them: proposals are not stored. The multiplicity of an output
row is the product of that of the row and of those that the indexes have.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Cell, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import too_wide
from deltamark.dataflow.kernels.motifs.extender import DeltaExtender, visible_weight
from deltamark.dataflow.kernels.motifs.index import update_at
from deltamark.dataflow.kernels.ordered.sorted_lists import number_at
from deltamark.dataflow.types import FOREVER

LISTED, SUMMED, MEASURED = range(3)
"""Modes: an output row for each value of a row; one output row with the sum of their multiplicities, if the values are
not read; or one output row with an upper bound of the number of values of the only index."""

FEWEST = -1
"""The proposer, if it is the index with the fewest values."""


class ExtendBlock(Operator):
    """The extension of the rows of a slice."""

    size: Cell
    time: Vector
    diff: Vector
    extender_count: int
    extenders: Array
    """A `DeltaExtender` for each index."""
    is_bound: int
    bound: Vector = NONE
    """The values of the column, if it has values already."""
    proposer: int
    """The number of the extender that proposes, or FEWEST."""
    mode: int
    out_size: Cell
    out_time: Vector
    out_diff: Vector
    out_row: Vector
    """The rows that are extended."""
    out_value: Vector
    fan_out: Cell
    """The most rows that such an operator has written in this slice; see `interpreter`."""
    overflow: int = 0
    """Set, and returned as the status, if a product or a sum of weights needs more than 64 bits."""
    proposals: int = 0
    extended: int = 0
    """The total number of output rows."""


EXTENDER_WORDS = DeltaExtender.size_in_words


@inline
def extender_at(extenders: Array, which: int) -> DeltaExtender:
    """Return an extender by its number."""
    return DeltaExtender(extenders[EXTENDER_WORDS * which :].address)


@inline
def product(op: ExtendBlock, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        op.overflow = 1
    return a * b


@inline
def emit(op: ExtendBlock, row: int, value: int, weight: int, out: int) -> int:
    """Write an output row; return the new size of the output."""
    op.out_time[out] = op.time[row]
    op.out_diff[out] = weight
    op.out_row[out] = row
    op.out_value[out] = value
    return out + 1


@kernel
def complete(op: ExtendBlock, row: int, start: int, stop: int) -> int:
    """Complete output rows whose values are written; return the new size of the output."""
    time, diff = op.time[row], op.diff[row]
    if op.mode != LISTED:
        diff, stop = product(op, diff, stop - start), min(stop, start + 1)
    times, diffs, rows = op.out_time, op.out_diff, op.out_row
    for at in range(start, stop):
        times[at] = time
        diffs[at] = diff
        rows[at] = row
    return stop


@kernel
def propose_updates(op: ExtendBlock, row: int, mine: DeltaExtender, other: DeltaExtender, which: int, out: int) -> int:
    """Extend a row by the visible updates of extender `which`, `mine`, whose values the other extender has."""
    updates, low, before, others = mine.index.updates, mine.index.low, mine.before, other.update_at
    for at in range(mine.update_at, mine.update_stop):
        update = update_at(updates, at)
        if update.time < before:
            other.update_at = others  # the same value may come again
            out = validate(op, row, update.number + low, update.diff, which, out)
    other.update_at = others
    return out


@kernel
def propose(op: ExtendBlock, row: int, which: int, out: int) -> int:
    """Extend a row by the values that an extender proposes and all others have, whatever their weights and updates."""
    extender = extender_at(op.extenders, which)
    index, pool, width = extender.index, extender.pool, extender.width
    at, stop, update, update_stop = extender.at, extender.stop, extender.update_at, extender.update_stop
    low, updates, before, weights = index.low, index.updates, extender.before, index.weights
    weighted, proposals = index.weighted != 0, 0
    while at < stop or update < update_stop:
        settled = number_at(pool, width, at) if at < stop else FOREVER
        number = min(settled, update_at(updates, update).number) if update < update_stop else settled
        weight = 0
        if settled == number:
            weight = weights[at] if weighted else 1
            at += 1
        while update < update_stop and update_at(updates, update).number == number:
            if update_at(updates, update).time < before:
                weight += update_at(updates, update).diff
            update += 1
        if weight != 0:
            proposals += 1
            out = validate(op, row, number + low, weight, which, out)
    op.proposals += proposals
    return out


@kernel
def validate(op: ExtendBlock, row: int, value: int, weight: int, proposer: int, out: int) -> int:
    """Extend a row by a value if all extenders but the proposer have it; return the new size of the output."""
    weight, extenders = product(op, weight, op.diff[row]), op.extenders
    for which in range(op.extender_count):
        if which != proposer:
            multiplicity = visible_weight(extender_at(extenders, which), value)
            if multiplicity == 0:
                return out
            weight = product(op, weight, multiplicity)
    return emit(op, row, value, weight, out)
