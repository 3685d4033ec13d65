"""The memory of a process: what it has freed is no part of it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from deltamark.harness.system.resources import MemoryUse

BYTES = 80_000_000


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library keeps freed memory")
def test_memory_that_was_freed_below_an_array_that_is_used_is_not_counted():
    use = MemoryUse()
    arrays = [np.ones(1000) for _ in range(BYTES // 8000)]
    assert use.growth > BYTES // 2
    del arrays[:-1]
    assert use.growth < BYTES // 2
