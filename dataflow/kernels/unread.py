"""Changes of unread columns: the updates of a time that cancel each other in all columns that a program reads.

Such a change retracts rows and inserts them again with other values in columns that no operator reads. It is skipped
before the feed is cut: otherwise, a join would pair the row with all its partners twice, to no effect.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.batches import first_after
from deltamark.dataflow.kernels.core.blocks import Array, Array8, Array16, Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.program import InputBlock, ProgramBlock
from deltamark.dataflow.kernels.text.functions import equal_bytes


@kernel
def skip_unread(program: ProgramBlock) -> None:
    """Skip the next updates of each input as long as those of a whole time cancel each other."""
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        while block.skips_unread != 0 and _begins_change(block):
            stop = first_after(block.times, block.position, block.rows, block.times[block.position])
            if not _are_unread(block, block.position, stop):
                break
            block.position = stop


@inline
def _begins_change(block: InputBlock) -> bool:
    """Return whether the next update is the first one of its time, and is a retraction that others follow."""
    at = block.position
    if at + 1 >= block.rows or block.diffs[at] >= 0:
        return False
    return at == 0 or block.times[at - 1] != block.times[at]


@kernel
def _are_unread(block: InputBlock, start: int, stop: int) -> bool:
    """Return whether the first retraction cancels the first insertion, the second one the second, and so on."""
    diffs, removed, added = block.diffs, start, start
    for _ in range((stop - start) >> 1):
        while removed < stop and diffs[removed] >= 0:
            removed += 1
        while added < stop and diffs[added] <= 0:
            added += 1
        if max(removed, added) == stop or diffs[removed] != -diffs[added] or not _equal(block, removed, added):
            return False
        removed += 1
        added += 1
    return (stop - start) & 1 == 0


@kernel
def _equal(block: InputBlock, a: int, b: int) -> bool:
    """Return whether two rows of an input are equal in all columns that are read."""
    for column in range(block.columns):
        base, width = block.bases[column], block.widths[column]
        if base == 0:
            continue  # a column that is not read now, or the flags of texts of which none is missing
        if column + 1 < block.columns and block.widths[column + 1] == 0:
            if not _equal_texts(Array32(base), block.bases[column + 1], a, b):
                return False
        elif (
            (width == 8 and Array(base)[a] != Array(base)[b])
            or (width == 4 and Array32(base)[a] != Array32(base)[b])
            or (width == 2 and Array16(base)[a] != Array16(base)[b])
            or (width == 1 and Array8(base)[a] != Array8(base)[b])
        ):
            return False
    return True


@inline
def _equal_texts(offsets: Array32, base: int, a: int, b: int) -> bool:
    """Return whether two texts are equal. base: the address of the bytes, which all rows share."""
    start, other = offsets[a], offsets[b]
    length = offsets[a + 1] - start
    return length == offsets[b + 1] - other and equal_bytes(base + start, base + other, length)
