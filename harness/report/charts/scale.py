"""Scales: the positions of values on an axis, and its ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Format = Callable[[float], str]


@dataclass(frozen=True)
class Log:
    """A logarithmic scale over whole decades, from 10^low to 10^high."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Iterable[float]) -> Log:
        """Return the scale of the decades with all positive values."""
        powers = [math.log10(value) for value in values if value > 0] or [0.0]
        low, high = math.floor(min(powers) + 1e-9), math.ceil(max(powers) - 1e-9)
        return cls(low, max(high, low + 1))

    def share(self, value: float) -> float:
        power = math.log10(value) if value > 0 else self.low
        return (max(power, self.low) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


@dataclass(frozen=True)
class Linear:
    """A linear scale from `low`, with a number of steps."""

    low: float
    step: float
    steps: int

    @classmethod
    def around(cls, values: Iterable[float]) -> Linear:
        """Return a scale of about four round steps around positive values; it need not begin at zero.

        It spans at least a fifth of the values, so that noise of a few percent looks small.
        """
        ordered = sorted(values)
        low, high = ordered[0], ordered[-1]
        margin = max(0.0, 0.1 * (low + high) - (high - low)) / 2
        step = _round_step((high - low + 2 * margin) / 4)
        first = math.floor((low - margin) / step + 1e-9)
        return cls(first * step, step, math.ceil((high + margin) / step - 1e-9) - first)

    def share(self, value: float) -> float:
        return (value - self.low) / (self.step * self.steps)

    @property
    def ticks(self) -> list[float]:
        return [self.low + self.step * number for number in range(self.steps + 1)]


Scale = Log | Linear


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least a positive value."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick(value: float) -> str:
    """Format a power of ten of seconds, with its unit where one begins."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if value >= size * (1 - 1e-9):
            times = round(value / size)
            return f"1 {unit}" if times == 1 else str(times)
    return f"{value:g}"


def short(value: float) -> str:
    """Format a power of ten, or a small number."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
