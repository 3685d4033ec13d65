"""Pseudo-random numbers and texts that depend on a purpose and on the numbers of events alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.datagen.seeded import hashed

HASH_BYTES = 8
ALPHABET = 26


def uniform(purpose: str, events: np.ndarray, size: int | np.ndarray) -> np.ndarray:
    """Draw a number from 0 to size - 1 for each event."""
    return hashed(f"nexmark {purpose}", events) % size


def words(purpose: str, events: np.ndarray, known: Sequence[str]) -> pa.StringArray:
    """Draw one of the known words for each event."""
    return pa.array(known, pa.string()).take(pa.array(uniform(purpose, events, len(known))))


def letters(purpose: str, events: np.ndarray, low: int, high: int) -> pa.StringArray:
    """Draw a text of `low` to `high` lower-case letters for each event."""
    lengths = low + uniform(f"{purpose} length", events, high - low + 1)
    hashes = [hashed(f"nexmark {purpose} {part}", events) for part in range(-(-high // HASH_BYTES))]
    drawn = np.stack(hashes, axis=1).astype("<i8").view(np.uint8) % ALPHABET + ord("a")
    kept = drawn[np.arange(drawn.shape[1]) < lengths[:, None]]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(events), pa.py_buffer(ends), pa.py_buffer(kept.astype(np.uint8)))


def digits(purpose: str, events: np.ndarray, size: int) -> pa.StringArray:
    """Draw a decimal number of `size` digits for each event."""
    drawn = pa.array(uniform(purpose, events, 10**size)).cast(pa.string())
    return pc.utf8_lpad(drawn, size, "0")


def joined(gap: str, *parts: pa.StringArray | str) -> pa.StringArray:
    """Concatenate texts, with `gap` between them."""
    return pc.binary_join_element_wise(*parts, gap)
