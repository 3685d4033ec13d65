"""A plugin of pytest that adds our backend to ibis' tests.

These tests have marks for what a backend cannot do. Ours reads expressions as DuckDB does, so each mark of DuckDB holds
for it. `SKIPPED` has the other tests that do not apply, with the reasons.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import ibis.conftest
import pyarrow as pa
import pytest
import pytest_snapshot.plugin
from ibis.backends.conftest import TEST_TABLES
from ibis.backends.sql import compilers
from ibis.backends.tests import data
from ibis.backends.tests.base import BackendTest

from deltamark.database.ibis_backend import Backend
from deltamark.errors import DeltamarkError
from ibis_suite.tables import NESTED, tables, write_files

NAME = "deltamark"
LIKE = "duckdb"
"""The backend whose marks hold for ours."""

FILES = Path(mkdtemp(prefix="ibis-suite-"))

CATALOGS = "one database without catalogs and schemas"
ROWS = "the test knows the rows of ibis' own files, which are not in its package"
FUNCTIONS = "functions of Python are not in databases"
SKIPPED = {
    "test_catalog_consistency": CATALOGS,
    "test_list_catalogs": CATALOGS,
    "test_list_database_contents": CATALOGS,
    "overwrite_temp[deltamark-temp": "no temporary tables",
    "test_create_temporary_table": "no temporary tables",
    "test_memtable_cleanup": "rows in memory are not listed as tables",
    "test_upsert_from_memtable[deltamark-sch2": "rows with a key alone are inserted if they are new, without an error",
    "dot_sql_transpile[deltamark-deltamark": "sqlglot names the dialect duckdb",
    "test_read_garbage": "needs an extension of DuckDB from the network",
    "test_impure.py::test_chained_selections[deltamark-udf": FUNCTIONS,
    "test_impure_correlated[deltamark-udf": FUNCTIONS,
    "test_impure_uncorrelated_different_id[deltamark-udf": FUNCTIONS,
    "test_impure_uncorrelated_same_id[deltamark-udf": FUNCTIONS,
    "test_udf.py": FUNCTIONS,
    "test_vectorized_udf": FUNCTIONS,
    "test_order_by_no_projection": ROWS,
    "test_join_then_filter_no_column_overlap": ROWS,
    "test_join_with_pandas": ROWS,
    "test_empty_array_string_join": "DuckDB 2 joins an empty array to an empty string, DuckDB 1 to NULL",
}
"""The parts of names of tests that do not apply, with the reasons."""

ibis.conftest.data_dir = pytest.fixture(scope="session")(lambda: FILES)


class TestConf(BackendTest):
    """The settings of ibis' tests for our backend."""

    supports_map = True
    deps = ("duckdb",)
    stateful = False
    driver_supports_multiple_statements = True

    @classmethod
    def name(cls) -> str:
        return NAME

    @staticmethod
    def connect(*, tmpdir: Any, worker_id: str, **options: Any) -> Backend:  # noqa: ARG004 (names of ibis)
        return Backend().connect(**options)

    def _load_data(self, **_: Any) -> None:
        found = tables({name: each.to_pyarrow() for name, each in TEST_TABLES.items()})
        write_files(FILES, found)
        for name, rows in found.items():
            self.connection.create_table(name, rows)
        con = self.connection.con
        con.execute(NESTED)
        con.insert("array_types", pa.Table.from_pandas(data.array_types))
        con.insert("struct", [{"abc": _plain(each)} for each in data.struct_types["abc"]])
        con.insert("json_t", [{"rowid": number, "js": each} for number, each in enumerate(data.json_types["js"])])
        con.insert("win", pa.Table.from_pandas(data.win))
        con.insert("topk", data.topk)


def _plain(value: Any) -> Any:
    """Return a value in which None stands for the NULL of pandas."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return None if value is data.pd.NA else value


def _module(name: str, **contents: Any) -> None:
    """Let ibis find our backend, and its settings, where those of its own are."""
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(contents)


_module(f"ibis.backends.{NAME}", Backend=Backend)
_module(f"ibis.backends.{NAME}.tests")
_module(f"ibis.backends.{NAME}.tests.conftest", TestConf=TestConf)


setattr(compilers, NAME, compilers.duckdb)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of our backend. What holds for DuckDB in marks and tables of types holds for it."""
    items[:] = [each for each in items if _is_ours(each)]
    for item in items:
        for mark in item.iter_markers():
            _extend(mark)
        for value in (*vars(item.module).values(), *item.callspec.params.values()):
            if isinstance(value, dict) and LIKE in value:
                value.setdefault(NAME, value[LIKE])
        reason = next((reason for part, reason in SKIPPED.items() if part in item.nodeid), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _is_ours(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return NAME in [value for name, value in params.items() if "backend" in name]


def _extend(mark: pytest.Mark) -> None:
    if mark.name in ("notimpl", "notyet", "never") and LIKE in mark.args[0] and NAME not in mark.args[0]:
        names = [mark.args[0]] if isinstance(mark.args[0], str) else mark.args[0]
        object.__setattr__(mark, "args", ([*names, NAME], *mark.args[1:]))
        if raises := mark.kwargs.get("raises"):
            mark.kwargs["raises"] = (*(raises if isinstance(raises, tuple) else (raises,)), DeltamarkError)
    elif mark.name == "xfail_version" and LIKE in mark.kwargs:
        mark.kwargs[NAME] = mark.kwargs[LIKE]


def _expected_texts(item: pytest.Item, where: Any = pytest_snapshot.plugin._get_default_snapshot_dir) -> Path:
    """Return the folder of the texts of SQL that ibis expects of DuckDB."""
    return Path(str(where(item)).replace(NAME, LIKE))


pytest_snapshot.plugin._get_default_snapshot_dir = _expected_texts
