"""Sources: where the rows of a benchmark come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.schema import Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Parts:
    """The rows of each relation in Parquet files, in their order.

    changes: Parquet files with the changes of the rows by rounds, by relation; empty if rows only arrive.
    """

    relations: Relations
    files: Mapping[str, Sequence[Path]]
    changes: Mapping[str, Path] = field(default_factory=dict)


class Source(ABC):
    """A generator, or files."""

    name: str
    """The beginning of the names of data directories."""
    relations: Relations
    scaled: bool = True
    """Whether there are rows for every scale factor."""

    @abstractmethod
    def version(self) -> str:
        """Return what makes the rows: equal versions and scale factors mean equal rows."""

    @abstractmethod
    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal | None, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        """Make the Parquet files below `making`, except those that an interrupted run left there; report the parts."""
