"""Columns of Spark's frames by their names, which may contain any character."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from deltamark.errors import unknown

Names = str | Iterable[str]
"""One column name, or several."""


def listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def column(name: str) -> Column:
    return f.col(quoted(name))


def require(frame: DataFrame, names: Iterable[str], where: str) -> None:
    """Refuse names that a frame does not have. where: a description of the frame."""
    for name in names:
        if name not in frame.columns:
            raise unknown(f"column of {where}", name, frame.columns)
