"""The layouts of source trees that the gate can measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ComparedSuite = Literal["tpch", "graph"]


@dataclass(frozen=True)
class Layout:
    """The module of a tree that serves measurements of a suite, and the module that makes the data of the suite."""

    server: str
    data_maker: str

    def fits(self, root: Path) -> bool:
        return root.joinpath(*self.server.split(".")).with_suffix(".py").exists()


LAYOUTS: Mapping[ComparedSuite, tuple[Layout, ...]] = {
    "tpch": (
        Layout("deltamark.harness.measure.server", "deltamark.datagen.make"),
        Layout("harness.warm", "datagen.make"),
    ),
    "graph": (
        Layout("deltamark.harness.compare.motifs", "deltamark.datagen.graphs.make"),
        Layout("harness.compare.motifs", "datagen.make_graph"),
    ),
}
"""The known layouts of each suite, the oldest last."""
