"""The laws of CONTRIBUTING that a look at the sources can decide, and the places that additions easily forget."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.manual import PAGES
from support.paths import ROOT
from support.reference.operators import OPERATORS

from deltamark.dataflow import operators
from deltamark.dataflow.operators.derived import Derived
from deltamark.dataflow.operators.node import Node
from deltamark.harness import engines
from deltamark.harness.benchmarks.benchmark import DESCRIPTION, benchmark
from deltamark.harness.check.verify import SF, read_golden
from deltamark.harness.engines.base import Engine
from deltamark.harness.engines.external.engine import CLASSES
from deltamark.harness.engines.registry import BUILT_IN

ROWS = re.findall(r"^\| `([.\w]+)/` \|.*\| ([^|]*?) ?\|$", PAGES["CONTRIBUTING.md"], re.MULTILINE)
"""The folders with those that they may import."""

EVERYONE = {"errors", "sources"}

CLOCKS = {"time", "timeit"}
FILES = {"io", "mmap", "os", "pathlib", "shutil", "tempfile"}

EXCEPTIONS = {
    "dataflow/kernels/__init__.py", "dataflow/kernels/core/cache.py",
    "dataflow/kernels/core/guard.py", "dataflow/kernels/core/intrinsics.py", "dataflow/kernels/core/memory.py",
    "dataflow/kernels/core/pages.py", "dataflow/kernels/core/unlocked.py", "queries/sql_text.py",
}  # fmt: skip
"""The modules of kernels and queries that use a clock or files: see the layers in CONTRIBUTING."""


def sources(*folders: str) -> Iterator[Path]:
    return (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))


def imports(path: Path) -> set[str]:
    """Return the names of the modules that a file imports from."""
    tree = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    named = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
    return named | {node.module for node in tree if isinstance(node, ast.ImportFrom) and node.module}


def called_of(path: Path, module: str) -> set[str]:
    """Return the names of the functions of a module that a file calls."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    owned = [call for call in calls if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name)]
    return {call.attr for call in owned if isinstance(call.value, ast.Name) and call.value.id == module}


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]


def test_the_described_folders_are_those_of_the_tree():
    described = {name for name, _ in ROWS}
    assert {name for name in described if not (ROOT / name).is_dir()} == set()
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} <= described


@pytest.mark.parametrize("folder", ["datagen", "dataflow", "database", "queries", "peers"])
def test_folders_import_those_of_their_row(folder):
    (allowed,) = [text for name, text in ROWS if name == folder]
    known = {folder, *re.findall(r"`(\w+)`", allowed), *([] if folder == "peers" else EVERYONE)}
    found = {name for file in sources(folder) for name in imports(file) if name.startswith("deltamark.")}
    assert sorted(name for name in found if name.split(".")[1] not in known) == []


def test_kernels_operators_and_queries_have_no_clock_and_no_files():
    found = {
        str(file.relative_to(ROOT))
        for file in sources("dataflow/kernels", "dataflow/operators", "queries")
        if {name.split(".")[0] for name in imports(file)} & (CLOCKS | FILES)
    }
    assert found == EXCEPTIONS


def kinds_of_nodes(base):
    """Return the classes of nodes that no other class is derived from."""
    for module in pkgutil.iter_modules(operators.__path__):
        importlib.import_module(f"{operators.__name__}.{module.name}")
    below = base.__subclasses__()
    return {each for child in below for each in kinds_of_nodes(child)} if below else {base}


def test_every_node_has_a_meaning():
    """A loop, its variable and the steps of a motif have the meanings of whole plans, and an input has given rows.

    Derived operators have the meanings of the others by which a pass replaces them.
    """
    whole = {"Input", "Iterate", "Variable", "Extend", "Seek", "Measure"}
    assert {each.__name__ for each in OPERATORS} | whole == {
        each.__name__ for each in kinds_of_nodes(Node) if not issubclass(each, Derived)
    }


CLOCK = re.compile(r"\b(monotonic|perf_counter|process_time|thread_time|time\.time)(_ns)?\(\)")


def measures(node: ast.AST, clocks: set[str]) -> bool:
    return bool(CLOCK.search(ast.unparse(node))) or bool({*names(node)} & clocks)


def names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda file: file.stem)
def test_no_test_compares_a_time_with_a_limit(file):
    for test in (node for node in functions(file) if node.name.startswith("test_")):
        clocks: set[str] = set()
        for node in ast.walk(test):
            if isinstance(node, ast.Assign) and CLOCK.search(ast.unparse(node.value)):
                clocks |= {name for target in node.targets for name in names(target)}
        for node in ast.walk(test):
            if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
                sides = [node.test.left, *node.test.comparators]
                limits = [side for side in sides if not names(side)]
                assert not (limits and any(measures(side, clocks) for side in sides)), ast.unparse(node)


@pytest.mark.parametrize("folder", ["database", "dataflow", "datagen", "harness", "queries"])
def test_no_process_uses_the_database_of_duckdb_itself(folder):
    """Its threads live until the process ends, and a process that has some may not fork."""
    files = [file for file in sources(folder) if "duckdb" in imports(file)]
    assert {file: called_of(file, "duckdb") - {"connect"} for file in files} == {file: set() for file in files}


def returning(path: Path, name: str) -> set[str]:
    """Return the public functions of a module whose result has a class."""
    found = (node for node in functions(path) if node.returns and re.search(rf"\b{name}\b", ast.unparse(node.returns)))
    return {node.name for node in found if not node.name.startswith("_")}


def called(path: Path) -> set[str]:
    nodes_ = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.id for node in nodes_ if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def test_every_table_is_made():
    file = ROOT / "harness" / "tables" / "tpch.py"
    commands = {"tables", "summary", "growth"}
    assert returning(file, "Table") - called(file) <= commands


@pytest.mark.parametrize("file", list(sources("harness/report/sections")), ids=lambda file: file.stem)
def test_every_section_is_on_the_page(file):
    assert returning(file, "Section") <= called(ROOT / "harness" / "report" / "page.py")


def test_every_engine_is_in_the_registry():
    for module in pkgutil.walk_packages(engines.__path__, f"{engines.__name__}."):
        importlib.import_module(module.name)

    def below(kind):
        return {kind, *(each for child in kind.__subclasses__() for each in below(child))}

    classes = {each for each in below(Engine) if "name" in vars(each) and each.__module__.startswith("deltamark.")}
    assert {each.name for each in classes - {*CLASSES.values()}} == {*BUILT_IN}


def test_every_benchmark_is_in_the_manual():
    folders = {path.parent.name for path in (ROOT / "queries").glob(f"*/{DESCRIPTION}")}
    for name in folders - {"tpch"}:
        assert re.search(rf"(bench-|BENCHMARK=){name}\b", PAGES["docs/benchmarks.md"]), name


def test_every_query_has_golden_digests():
    cells, home = {(cell.query, cell.workload) for cell in read_golden()}, benchmark()
    assert cells == {(name, work) for name in home.queries for work in home.golden}, f"make golden, at SF={SF}"
