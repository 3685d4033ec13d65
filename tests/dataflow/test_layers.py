"""The packages of the engine import in one direction, so each can be understood without those above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.paths import ROOT

LAYERS = (
    "types", "arrow_values", "batch", "answer", "kernels", "plan", "scalars", "builder", "operators", "interpreter",
    "language", "passes", "sql", "codegen", "explain", "runtime", "motifs", "spark",
)  # fmt: skip
"""The packages and modules of `dataflow`, each of which imports from those before it."""

UPWARD = {("language", "explain"), ("language", "passes")}
"""The exceptions: `Collection.explain` and `optimized` import what they call."""

ENGINE = "deltamark.dataflow."


def imported(path: Path) -> set[str]:
    """Return the packages of the engine that a file imports from."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return {name.removeprefix(ENGINE).split(".")[0] for name in names if name.startswith(ENGINE)}


def test_every_package_has_a_layer():
    names = {path.stem for path in (ROOT / "dataflow").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert names - {"__init__", "__pycache__"} == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_imports_go_down(name):
    place = ROOT / "dataflow" / name
    files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    above = set(LAYERS[LAYERS.index(name) + 1 :])
    assert {(name, other) for path in files for other in imported(path) & above} <= UPWARD
