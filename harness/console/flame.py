"""Parts of a time as bars in text, each below the part that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltamark.harness.console.formatting import brief

WIDTH = 64
"""The characters of the longest bar."""

FULL, EIGHTHS = "█", " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bar:
    """A part of a time, in milliseconds. A bar of depth n belongs to the last one before it of depth n - 1."""

    name: str
    depth: int
    start: float
    end: float


def flame(bars: Sequence[Bar]) -> str:
    """Draw bars on one scale of time, from the first start to the last end, each with its name and length."""
    first, last = min(bar.start for bar in bars), max(bar.end for bar in bars)
    scale = WIDTH / ((last - first) or 1)
    names = ["  " * bar.depth + bar.name for bar in bars]
    lengths = [brief((bar.end - bar.start) / 1e3).text for bar in bars]
    name_width, length_width = max(map(len, names)), max(map(len, lengths))
    drawn = [_drawn((bar.start - first) * scale, (bar.end - first) * scale) for bar in bars]
    rows = zip(names, lengths, drawn, strict=True)
    return "\n".join(f"{name:<{name_width}}  {length:>{length_width}}  {line}" for name, length, line in rows)


def _drawn(start: float, end: float) -> str:
    """Draw a bar from whole characters; its end has the precision of an eighth, and no bar is invisible."""
    first = round(start)
    eighths = max(round(8 * (end - start)), 1)
    return " " * first + FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()
