"""Arrivals: the times at which rounds become due, which do not depend on the engine.

`steady`: a round is due at equal intervals. `burst:S`: every millisecond a burst is due, whose share of all rounds is
drawn from a Pareto distribution with the shape S. Both have the same mean rate. The draws are the same for every rate
and engine, so a burst is the same share of a second at every rate.
"""

from __future__ import annotations

import math

import numpy as np

from deltamark.datagen.seeded import hashed
from deltamark.errors import DeltamarkError, shortened, unknown

STEADY, BURST = "steady", "burst"
NAMES = (STEADY, f"{BURST}:S")

INTERVAL_S = 0.001
"""The time between two bursts. Not tuned."""

MIN_SHAPE, MAX_SHAPE = 1.05, 100.0
"""Shapes up to 1 have no mean; with large shapes the bursts are nearly equal."""

RANDOM_BITS = 63


def known_arrivals(text: str) -> str:
    """Return the name of arrivals if it is well formed."""
    if text != STEADY:
        _shape(text)
    return text


def due_times(arrivals: str, *, rate: float, seconds: float, most: int) -> np.ndarray:
    """Return the time in seconds at which each round is due, in order.

    rate: rounds per second, in the mean. The rounds are those of the given time, but no more than `most`.
    """
    rounds = max(min(int(rate * seconds), most), 1)
    if arrivals == STEADY:
        return np.arange(rounds) / rate
    sizes = burst_sizes(_shape(arrivals), rounds, max(math.ceil(rounds / rate / INTERVAL_S), 1))
    return np.repeat(np.arange(len(sizes)) * INTERVAL_S, sizes)


def burst_sizes(shape: float, rounds: int, bursts: int) -> np.ndarray:
    """Divide rounds into bursts, whose shares are drawn from a Pareto distribution; a burst may be empty."""
    drawn = (hashed(BURST, np.arange(bursts)) + 1.0) / 2.0**RANDOM_BITS
    ends = np.cumsum(drawn ** (-1 / shape))
    return np.diff(np.rint(ends / ends[-1] * rounds).astype(np.int64), prepend=0)


def _shape(text: str) -> float:
    kind, _, number = text.partition(":")
    if kind != BURST:
        raise unknown("arrivals", text, NAMES)
    try:
        shape = float(number)
    except ValueError:
        shape = math.nan
    if not MIN_SHAPE <= shape <= MAX_SHAPE:
        remedy = f"write burst:S with S from {MIN_SHAPE:g} to {MAX_SHAPE:g}, such as burst:1.5"
        raise DeltamarkError("not a shape of bursts", shortened(text), remedy)
    return shape
