"""Or null: the rows themselves, and one row of NULL while there are none, from time 0 on."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store, store32
from deltamark.dataflow.kernels.groups.grouped_rows import (  # fmt: skip
    BEFORE,
    COLUMNS,
    FOUND_BY,
    GROUP_CHAIN,
    NEGATIVE,
    ROWS,
    SHOWN,
    USED,
    VALUES,
    WEIGHT,
    emit,
    fail,
    record_of,
    release,
)
from deltamark.dataflow.types import NULL


@kernel
def or_null(op: int, group: int) -> int:
    """End a time. SHOWN: whether the row of NULL is out; its record is that of slot 0."""
    rows, slot = load(op, ROWS), load(group, GROUP_CHAIN)
    left = load(rows, USED)
    while slot > 0:
        record = record_of(rows, slot)
        if load(record, WEIGHT) < 0:
            return fail(op, NEGATIVE, ROWS, slot)
        left -= load(record, WEIGHT) == 0
        slot = load32(record, 2 * FOUND_BY)
    shown = 1 if left == 0 else 0
    diff = shown - load(op, SHOWN)
    store(op, SHOWN, shown)
    slot = load(group, GROUP_CHAIN)
    store(group, GROUP_CHAIN, 0)
    while slot > 0:
        record = record_of(rows, slot)
        change, touched = load(record, WEIGHT) - load(record, BEFORE), load32(record, 2 * FOUND_BY)
        store32(record, 2 * FOUND_BY, 0)
        if diff != 0 and _is_null(rows, record):  # such a row may also be among the others
            change, diff = change + diff, 0
        if change != 0:
            emit(op, record, change)
        if load(record, WEIGHT) == 0:
            release(rows, slot)
        slot = touched
    if diff != 0:
        emit(op, record_of(rows, 0), diff)
    return 0


@kernel
def _is_null(rows: int, record: int) -> bool:
    missing = 0
    for column in range(load(rows, COLUMNS)):
        missing += load(record, VALUES + column) == NULL
    return missing == load(rows, COLUMNS)
