"""Checked kernels refuse addresses outside a reservation, and name the operator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.paths import ROOT

from deltamark.dataflow.kernels.core.guard import COUNT, HALF_WORDS, HALVES, VERSION, Registry

BEGIN = """
import sys
import numpy as np
from numba import njit as kernel
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.kernels.core import guard, memory
from deltamark.dataflow.kernels.core.guard import OutOfBoundsError, lent
from deltamark.dataflow.kernels.core.intrinsics import load, load8, store
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.masks import append_rows, append_words, less64, range32
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.types import integer
from deltamark.dataflow.runtime.dataflow import Dataflow

def refused(name, action, *words):
    try:
        action()
    except OutOfBoundsError as error:
        said = f"{error} {guard.REGISTRY.fault()}"
        print(f"{name}: {'refused' if all(word in said for word in words) else said}")

@kernel
def read(base, index):
    return load(base, index)

@kernel
def write(base, index):
    store(base, index, 1)

@kernel
def read_byte(base, index):
    return load8(base, index)

@kernel
def compare(base, other, chunk):
    return less64(base, other, chunk)

@kernel
def compare_with(base, chunk, low, high):
    return range32(base, chunk, low, high)

@kernel
def append(base, kept):
    return append_rows(-1, 0, Array(base), kept)

@kernel
def append_from(words, base):
    return append_words(-1, Array(words), Array(base), 0)

own = Memory()
at, chunks = own.reserve(10), own.reserve(128)
"""
FAULTS = {
    "beyond the end": "refused(name, lambda: read(at, 10), '8 bytes at index 10 of a reservation of 10 words')",
    "before the start": "refused(name, lambda: write(at, -1), 'index -1')",
    "the byte behind the last": "refused(name, lambda: read_byte(at, 80), '1 bytes at index 80')",
    "a chunk beyond the end": "refused(name, lambda: compare_with(chunks, 4, 0, 1), '256 bytes at index 4')",
    "a chunk of another column": "refused(name, lambda: compare(chunks, at, 0), '512 bytes at index 0')",
    "a list of rows beyond the end": "refused(name, lambda: append(chunks, 65), 'of a reservation of 128 words')",
    "a list of words beyond the end": "refused(name, lambda: append_from(at, chunks), 'of 10 words')",
    "nobody's": "refused(name, lambda: read(64, 0), 'not live')",
    "a view beyond the end": "refused(name, lambda: view(at, 11), 'a view of 88 bytes')",
    "given back": "other = own.reserve(1); own.release(other); refused(name, lambda: read(other, 0), 'not live')",
    "an array that is lent no more": """
array = np.arange(4)
with lent(array) as (address,):
    assert read(address, 3) == 3
refused(name, lambda: read(address, 3), 'not live')
""",
    "a block of an operator": """
from deltamark.dataflow.kernels.groups.aggregate import AGGREGATE, AggregateBlock
rows = source('rows', {'a': integer(0, 9)}, 10)
worker = Dataflow(rows.count(by='a'))
ops = worker._plans.use(lambda plans: plans.compiled.program.ops)
op = next(each for each in ops if each.step is AGGREGATE)
block = AggregateBlock(op.block)
block.as_words.state += 8 << 24
one = np.ones(1, np.int64)
refused(name, lambda: worker.feed({'rows': Batch(one, one, {'a': one})}), 'aggregate', 'not live')
""",
}


@pytest.fixture(scope="module")
def found(checked_environment):
    """Return the errors of all faults, from one process that has checked kernels."""
    script = "\n".join([BEGIN, *(f"name = {name!r}\n{fault}" for name, fault in FAULTS.items())])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=checked_environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", FAULTS)
def test_addresses_outside_a_reservation_are_refused(found, name):
    assert found[name] == "refused"


def test_memory_that_is_released_during_a_change_is_removed_after_it():
    registry, released = Registry(), [(1000 * at, 8) for at in range(1, 3000)]
    for start, size in released:
        registry.add(start, size, "released")
    registry.add(8, 8, "kept")
    with registry._change():
        for each in released:
            registry.remove_within([each])
    assert registry.table[HALVES + HALF_WORDS * (int(registry.table[VERSION]) & 1) :][COUNT] == 1
