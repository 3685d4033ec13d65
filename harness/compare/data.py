"""The data of a side, made by the side's own code: another commit may store the same rows in other files.

The side also reports the directory of its data. The directory's name contains the version of the files, so sides with
different versions share one DATA directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deltamark.errors import DeltamarkError
from deltamark.harness.compare.layouts import Suite
from deltamark.harness.compare.trees import Tree

SCRIPT = """
import importlib, sys
from decimal import Decimal
from pathlib import Path
data_maker, data, size, master = sys.argv[1:]
make = importlib.import_module(data_maker)
print({directory})
"""
DIRECTORIES: Mapping[Suite, str] = {
    "tpch": "make.make_data(make.Wanted(Path(data), Decimal(size), master), lambda *_: None)[0].directory",
    "graph": "make.make_graph(Path(data), make.Graph('rmat', int(size)), master, lambda *_: None)",
}
"""Expressions that make data unless it exists, and return its directory. All layouts have the names in them."""


@dataclass(frozen=True)
class DataRequest:
    """The data that a comparison needs, below a directory. size: a scale factor, or the scale of an R-MAT graph."""

    suite: Suite
    data: Path
    size: str
    master: str

    def make(self, tree: Tree) -> Path:
        """Have a tree make the data unless it exists; return its directory."""
        script = SCRIPT.format(directory=DIRECTORIES[self.suite])
        maker = tree.layout.data_maker
        process = subprocess.run(
            [sys.executable, "-c", script, maker, str(self.data.resolve()), self.size, self.master],
            cwd=tree.root, env=os.environ | {"PYTHONPATH": str(tree.root)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if process.returncode:
            reason = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            raise DeltamarkError(f"{tree.label} cannot make its data", reason, "name another commit")
        return Path(process.stdout.splitlines()[-1])
