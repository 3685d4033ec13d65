"""Laws of address space: a process has enough of it for any number of arrays, whose sizes adapt to what is left."""

from __future__ import annotations

from contextlib import ExitStack, closing
from unittest.mock import patch

import numpy as np
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.core.guard import CHECKED
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory, view
from deltamark.dataflow.kernels.core.pages import ADDRESS_BYTES, MACHINE_BYTES, MAPPED, MIN_UNKNOWN_BYTES, most_bytes
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import DOUBLE, Type, integer

pytestmark = pytest.mark.skipif(CHECKED, reason="arrays of checked kernels are small")

ARRAYS = 16_000
"""Arrays with three mappings each, of which the kernel allows 65,530 by default."""

HASHED = {"key": integer(0, (1 << 61) - 1), "x": DOUBLE, "y": DOUBLE}
DENSE = HASHED | {"key": integer(0, (1 << 33) - 2)}


def correlations(columns: dict[str, Type], rows: int) -> Collection:
    return source("points", columns, rows).aggregate(by="key", correlation=col.x.corr(col.y))


CORRELATIONS = correlations(HASHED, 1 << 20)


def test_each_of_many_arrays_finds_address_space():
    left = ADDRESS_BYTES
    for _ in range(ARRAYS):
        size = most_bytes(1, left)
        assert MIN_UNKNOWN_BYTES <= size <= left
        left -= min(size, 8 * UNBOUNDED_WORDS)


def test_an_array_of_unknown_size_has_room_for_half_the_machine_while_most_space_is_left():
    for shares in (1, 2, 300):
        size = most_bytes(shares, ADDRESS_BYTES // 2)
        assert size >= min(MACHINE_BYTES // 2, 8 * UNBOUNDED_WORDS)
        assert size <= 4 * MACHINE_BYTES


@pytest.mark.parametrize("words", [UNBOUNDED_WORDS, 300 * UNBOUNDED_WORDS])
def test_an_array_that_is_used_from_its_first_word_on_gets_less_if_space_is_short(words):
    with closing(Memory(None)) as memory, patch.object(MAPPED, "bytes", ADDRESS_BYTES - (1 << 30)):
        before = MAPPED.bytes
        view(memory.reserve(words), MIN_UNKNOWN_BYTES // 8)[-1] = 1
        assert MIN_UNKNOWN_BYTES <= MAPPED.bytes - before < 2 * MIN_UNKNOWN_BYTES


def test_an_array_any_word_of_which_is_used_gets_all_words_however_short_space_is():
    words = 2 * UNBOUNDED_WORDS
    with closing(Memory(None)) as memory, patch.object(MAPPED, "bytes", ADDRESS_BYTES - (1 << 30)):
        before = MAPPED.bytes
        memory.reserve_whole(words)
        assert MAPPED.bytes - before >= 8 * words


def test_many_correlations_over_hashed_keys_leave_most_of_the_address_space():
    before = MAPPED.bytes
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(closing(Dataflow(CORRELATIONS)))
        assert MAPPED.bytes - before < ADDRESS_BYTES // 8


def test_wide_groups_of_a_large_range_of_keys_leave_most_of_the_address_space():
    before = MAPPED.bytes
    with closing(Dataflow(correlations(DENSE, 1 << 40))):
        assert MAPPED.bytes - before < ADDRESS_BYTES // 8


def test_released_arrays_give_their_address_space_back():
    before, memory = MAPPED.bytes, Memory(None)
    memory.reserve(1)
    kept = memory.reserve(UNBOUNDED_WORDS)
    memory.release(kept)
    memory.close()
    assert MAPPED.bytes == before


def test_answers_do_not_depend_on_the_address_space_that_is_left():
    random = np.random.default_rng(0)
    keys, ones = random.integers(0, 1 << 60, 5000), np.ones(5000, np.int64)
    batch = Batch(ones, ones, {"key": np.repeat(keys[:500], 10), "x": random.random(5000), "y": random.random(5000)})

    def answer() -> dict[str, list[float]]:
        with closing(Dataflow(CORRELATIONS)) as engine:
            changes = engine.feed({"points": batch})
        order = np.argsort(changes.columns["key"])
        return {name: values[order].tolist() for name, values in changes.columns.items()}

    expected = answer()
    with patch.object(MAPPED, "bytes", ADDRESS_BYTES - (1 << 30)):
        assert answer() == expected
