"""The code and the commands of the manual run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines.explanations import parts
from support.manual import PAGES, Command, code, commands
from support.paths import ROOT

from deltamark import Batch, Dataflow, col, connect, integer, source
from deltamark.harness.cli.commands import NAMES, load
from deltamark.harness.cli.main import main
from deltamark.harness.cli.parser import Parser
from deltamark.harness.results import store

COMMANDS = commands()
EXAMPLES = (
    "print(con.execute(", "con.upsert(", "snapshot=True)", "ibis.deltamark", "sales = source(", "dataflow.retire(",
    "begin.iterate(", "modes = Query(", "delta_query(", "parquet_table(", "by_shop = sql(", "merge_into(",
    "maintain(spark, text, {", "def mix(x):",
)  # fmt: skip
"""A part of each block of Python. `tests/harness/check/test_change_csv.py` runs the last one, and
`tests/dataflow/spark/` the two before it, in `test_maintain.py` and `test_feeds.py`."""


def example(part: str, names: Mapping[str, object] | None = None) -> dict[str, object]:
    """Run the block that contains a text; return its names."""
    found = {**(names or {})}
    exec(_block(part), found)
    return found


def _block(part: str) -> str:
    pages = ("README.md",) if part == EXAMPLES[0] else [page for page in PAGES if page != "README.md"]
    (block,) = [block for page in pages for block in code("python", page) if part in block]
    return block


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Change to an empty directory."""
    monkeypatch.chdir(tmp_path)


def run_elsewhere(directory, *words: str) -> str:
    """Run Python in another directory, as if the project were installed; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *words], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_block_of_python_has_a_test():
    assert len(code("python")) == len(EXAMPLES)
    for part in EXAMPLES:
        assert _block(part)


def test_the_readme_shows_its_output(tmp_path):
    (output,) = code("text", "README.md")
    assert run_elsewhere(tmp_path, "-c", _block("print(con.execute(")) == output


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_a_database_runs():
    rows = [(7, "2024-12-31", 5), (7, "2025-01-01", 3), (8, "2025-01-02", 9)]
    frame = [{"shop": shop, "day": day, "price": price} for shop, day, price in rows]
    assert example("con.upsert(", {"frame": frame})["table"].to_pydict() == {"city": ["Ulm", "Bonn"], "revenue": [9, 4]}


def test_the_example_of_a_subscription_runs(capsys):
    con = connect()
    con.execute("CREATE TABLE t (city VARCHAR, x INTEGER); INSERT INTO t VALUES ('Ulm', 4)")
    con.execute("CREATE VIEW revenue AS SELECT city, sum(x) AS revenue FROM t GROUP BY city")

    class Committing:
        def subscribe(self, view, *callback, **options):
            found = con.subscribe(view, *callback, **options)
            if callback:
                con.execute("INSERT INTO t VALUES ('Bonn', 9)")
            return found

    names = example("snapshot=True)", {"con": Committing(), "send": lambda _: con.close()})
    assert names["batch"].fetchall() == [(1, 1, "Bonn", 9)]
    assert "Bonn" in capsys.readouterr().out


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_ibis_runs(monkeypatch, capsys):
    ibis = pytest.importorskip("ibis")
    backend = pytest.importorskip("deltamark.database.ibis_backend").Backend
    monkeypatch.setattr(ibis, "deltamark", backend(), raising=False)  # also if the project was installed before
    names = example("ibis.deltamark")
    names["con"].disconnect()
    assert capsys.readouterr().out.split() == ["shop", "revenue", "0", "7", "9.5", "1", "8", "4.0"]


def test_the_command_line_works_in_another_directory(tmp_path):
    assert "SELECT" in run_elsewhere(tmp_path, "-m", "deltamark.harness", "sql", "q05")


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_one_plan_runs():
    names = {
        "time": np.array([0, 0, 1]), "diff": np.array([1, 1, -1]),
        "shops": np.array([7, 7, 7]), "cents": np.array([900, 250, 900]),
    }  # fmt: skip
    changes = example("sales = source(", names)["changes"]
    assert changes.time.tolist() == [0, 1]
    assert changes.diff.tolist() == [1, -1]
    assert changes.columns["revenue"].tolist() == [900, 900]


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_several_plans_runs():
    names = {"time": np.array([0]), "diff": np.array([1]), "shops": np.array([7]), "cents": np.array([900])}
    names = example("sales = source(", names)
    batch, more = (
        Batch(np.array([3]), np.array([1]), {"shop": np.array([7]), column: np.array([value])})
        for column, value in (("price", 900), ("city", 2))
    )
    names = example("dataflow.retire(", names | {"batch": batch, "more": more})
    assert names["changes"]["cities"].columns["revenue"].tolist() == [900]
    assert names["answer"].columns["count"].tolist() == [1]
    assert len(parts(names["dataflow"].explain(), "arrangement")) == 2
    assert list(names["dataflow"].schemas) == ["dear"]


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_loops_runs():
    places = integer(0, 3)
    edges, roots = source("edges", {"src": places, "dst": places}, 9), source("roots", {"node": places}, 9)
    names = example("begin.iterate(", {"edges": edges, "roots": roots, "col": col})
    time, ones = np.array([0]), np.array([1])
    with closing(Dataflow(names["distances"])) as dataflow:
        edge = Batch(time, ones, {"src": np.array([2]), "dst": np.array([3])})
        out = dataflow.feed({"edges": edge, "roots": Batch(time, ones, {"node": np.array([2])})})
        assert sorted(zip(out.columns["node"], out.columns["dist"], strict=True)) == [(2, 0), (3, 1)]


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_motifs_runs():
    with closing(example("delta_query(")["dataflow"]) as dataflow:
        changes = dataflow.feed({"edges": Batch([0, 0, 0], [1, 1, 1], {"src": [1, 2, 1], "dst": [2, 3, 3]})})
        assert changes.columns["count"].tolist() == [1]


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_sql_runs():
    changes = example("by_shop = sql(")["changes"]
    assert [each.tolist() for each in changes.columns.values()] == [[7], [1550]]


@pytest.mark.usefixtures("elsewhere")
def test_the_example_of_sql_over_own_tables_runs():
    rows = pa.table({"shop": [7, 9], "price": [Decimal("9.50"), None]})
    pq.write_table(rows, "sales.parquet")
    names = example("parquet_table(", {"rows": rows})
    assert len(names["changes"].time) == 0, "there are no shops"
    with closing(Dataflow(names["plan"])) as dataflow:
        shops = Batch([0], [1], {"shop": [7], "city": ["Bonn"]})
        sales = names["arrow_batch"](rows, names["relations"]["sales"].schema, 0)
        changes = dataflow.feed({"sales": sales, "shops": shops})
    assert (changes.columns["city"].tolist(), changes.columns["revenue"].tolist()) == (["Bonn"], [950])


def test_the_example_of_an_own_query_runs(tmp_path, capsys, data):
    file = tmp_path / "modes.py"
    file.write_text(_block("modes = Query("))
    words = ["verify", str(file), "--data", str(data), "--workload", "insert,window:500,refresh:5"]
    assert main([*words, "--logical", "1,7", "--physical", "13,all", "--times", "10"]) == 0
    assert "6 checked, 0 wrong" in capsys.readouterr().out


def test_the_statement_reads_records_of_todays_format(monkeypatch, tmp_path):
    (statement,) = code("sql")
    with store.writing(tmp_path / "results" / "machine") as writer:
        writer.add(store.read(ROOT / "results" / "reference").records)
    monkeypatch.chdir(tmp_path)
    rows = duckdb.connect().sql(statement).fetchall()
    assert len(rows) > 400
    assert [row[5] for row in rows] == sorted((row[5] for row in rows), reverse=True)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_commands_can_be_parsed(command: Command, monkeypatch):
    monkeypatch.chdir(ROOT)  # the paths of external engines begin there
    name, *words = command.words
    if name in NAMES:
        parser = Parser()
        load(name).options(parser)
        parser.parse_settings(word for word in words if word != "--help")
    else:
        assert command.line.startswith("make ")
        assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


SHORT = [
    each
    for each in COMMANDS
    if (each.page == "docs/queries.md" and each.words[0] in ("answer", "changes", "sql", "explain"))
    or ("MACHINE=reference" in each.line and each.words[0] == "tables")
]


@pytest.mark.parametrize("command", SHORT, ids=str)
def test_short_commands_run(command: Command, monkeypatch, capsys, data):
    monkeypatch.chdir(ROOT)
    own = ["--data", str(data)] if command.words[0] in ("answer", "changes", "explain") else []
    assert main([*command.words, *own]) == 0
    assert capsys.readouterr().out
