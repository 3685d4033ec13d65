"""The data of a side, made by the side's own code: another commit may store the same rows in other files.

The side also reports the directory of its data. The directory's name contains the version of the files, so sides with
different versions share one DATA directory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.errors import DeltamarkError
from deltamark.harness.compare.gate import PhaseReport
from deltamark.harness.compare.layouts import ComparedSuite
from deltamark.harness.compare.sides import SideSpec

SCRIPT = """
import importlib, sys
from decimal import Decimal
from pathlib import Path
data_maker, data, size, master, name = sys.argv[1:]
make = importlib.import_module(data_maker)
more = {{}}
if name:
    from deltamark.harness.benchmarks.benchmark import benchmark
    more['source'] = benchmark(name).source
print({directory})
"""
DIRECTORIES: Mapping[ComparedSuite, str] = {
    "tpch": "make.make_data(make.Wanted(Path(data), Decimal(size), master, **more), lambda *_: None)[0].directory",
    "graph": "make.make_graph(Path(data), make.Graph('rmat', int(size)), master, lambda *_: None)",
}
"""Expressions that make data unless it exists, and return its directory. All layouts have the names in them."""


@dataclass(frozen=True)
class SideData:
    """The data that both sides need, below a directory. size: a scale factor, or the scale of an R-MAT graph."""

    suite: ComparedSuite
    directory: Path
    size: str
    master: str
    benchmark: str = ""
    """The name of the benchmark, which is empty for TPC-H: old commits know no other."""

    def make(self, sides: Sequence[SideSpec], report: PhaseReport) -> dict[SideSpec, Path]:
        """Make the data with each side's code, unless it exists; return the directories."""
        directories: dict[SideSpec, Path] = {}
        for number, side in enumerate(sides):
            report("data of both sides", number, len(sides))
            directories[side] = self._made_by(side)
        return directories

    def _made_by(self, side: SideSpec) -> Path:
        script = SCRIPT.format(directory=DIRECTORIES[self.suite])
        data_maker, directory = side.layout.data_maker, str(self.directory.resolve())
        process = subprocess.run(
            [sys.executable, "-c", script, data_maker, directory, self.size, self.master, self.benchmark],
            cwd=side.root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if process.returncode:
            reason = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            raise DeltamarkError(f"{side.label} cannot make its data", reason, "name another commit")
        return Path(process.stdout.splitlines()[-1])
