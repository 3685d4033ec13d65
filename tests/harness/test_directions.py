"""The packages of the harness import in one direction, so each can be understood without those after it."""

from __future__ import annotations

import ast

import pytest
from support.paths import ROOT

ORDER = (
    "bootstrap", "console", "system", "benchmarks", "engines", "check", "strikes", "results", "measure", "tables",
    "suites", "conformance", "compare", "chaos", "report", "cli",
)  # fmt: skip
"""The packages, each of which imports from those before it."""

HARNESS = "deltamark.harness."


def imported(path):
    """Return the packages of the harness that a file imports from."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return {name.removeprefix(HARNESS).split(".")[0] for name in names if name.startswith(HARNESS)}


def test_every_package_has_a_place():
    assert {path.parent.name for path in (ROOT / "harness").glob("*/__init__.py")} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_go_back(name):
    before = {*ORDER[: ORDER.index(name) + 1]}
    for path in (ROOT / "harness" / name).rglob("*.py"):
        assert imported(path) <= before, path
