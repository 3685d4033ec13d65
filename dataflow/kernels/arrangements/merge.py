"""Merge several streams into one in order of time, and cancel within a time what cancels."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import kernel, load, store

INPUTS, COLUMNS, PARTS, OUT_SIZE, OUT, PLACES = range(1, 7)
"""PARTS: for each input the cells SIZE, TIME, DIFF and its columns; OUT: cells TIME, DIFF, columns. PLACES: a word an
input. COLUMNS counts TIME and DIFF too."""

FOREVER = 2**62


@kernel
def merge(op: int) -> int:
    inputs, columns, places = load(op, INPUTS), load(op, COLUMNS), load(op, PLACES)
    for index in range(inputs):
        store(places, index, 0)
    out = 0
    while True:
        first, least = -1, FOREVER
        for index in range(inputs):
            part = load(op, PARTS) + 8 * (columns + 1) * index
            place = load(places, index)
            if place < load(load(part, 0), 0) and load(load(load(part, 1), 0), place) < least:
                first, least = index, load(load(load(part, 1), 0), place)
        if first < 0:
            break
        part, start = load(op, PARTS) + 8 * (columns + 1) * first, load(places, first)
        size, times = load(load(part, 0), 0), load(load(part, 1), 0)
        stop = start + 1
        while stop < size and load(times, stop) == least:
            stop += 1
        for column in range(columns):
            source, target = load(load(part, column + 1), 0), load(load(load(op, OUT), column), 0)
            for at in range(stop - start):
                store(target, out + at, load(source, start + at))
        out += stop - start
        store(places, first, stop)
    store(load(op, OUT_SIZE), 0, out)
    return 0
