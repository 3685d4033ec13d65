"""The README's code runs, and its words are true."""

from __future__ import annotations

import ast
import re
from contextlib import closing

import duckdb
import numpy as np
from support.paths import ROOT

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
from deltamark.harness.cli.commands import NAMES
from deltamark.harness.cli.main import main
from deltamark.harness.cli.results.readme import REFERENCE, section, with_tables
from deltamark.queries import catalogue
from deltamark.queries.parameters import VALIDATION

README = (ROOT / "README.md").read_text()


def example(start):
    (code,) = (each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if start in each)
    return code


def test_your_own_relation():
    given = {
        "time": np.array([0, 0, 1]), "diff": np.array([1, 1, -1]),
        "shops": np.array([7, 7, 7]), "cents": np.array([900, 250, 900]),
    }  # fmt: skip
    exec(example("sales = source("), given)
    out = given["out"]
    assert out.time.tolist() == [0, 1]
    assert out.diff.tolist() == [1, -1]
    assert out.columns["revenue"].tolist() == [900, 900]


def test_several_dataflows_at_once():
    given = {
        "time": np.array([0]), "diff": np.array([1]), "shops": np.array([7]), "cents": np.array([900]),
    }  # fmt: skip
    exec(example("sales = source("), given)
    batch, more = (
        given["Batch"](np.array([3]), np.array([1]), {"shop": np.array([7]), column: np.array([value])})
        for column, value in (("price", 900), ("city", 2))
    )
    given |= {"batch": batch, "more": more}
    exec(example("dataflow.retire("), given)
    assert given["changes"]["cities"].columns["revenue"].tolist() == [900]
    assert given["answer"].columns["count"].tolist() == [1]
    assert given["dataflow"].explain().count("arrangement of") == 2
    assert list(given["dataflow"].schemas) == ["dear"]


def test_loops():
    places = integer(0, 3)
    edges, roots = source("edges", {"src": places, "dst": places}, 9), source("roots", {"node": places}, 9)
    given = {"edges": edges, "roots": roots, "col": col}
    exec(example("begin.iterate("), given)
    time, ones = np.array([0]), np.array([1])
    with closing(Dataflow(given["distances"])) as worker:
        edge = Batch(time, ones, {"src": np.array([2]), "dst": np.array([3])})
        out = worker.feed({"edges": edge, "roots": Batch(time, ones, {"node": np.array([2])})})
        assert sorted(zip(out.columns["node"], out.columns["dist"], strict=True)) == [(2, 0), (3, 1)]


def test_your_own_query(monkeypatch, capsys, data):
    given = {}
    exec(example("MODES = Query("), given)
    ((name, key),) = re.findall(r'`"(\w+)": (\w+)`', README)
    ((_, parameters),) = re.findall(r'`"(\w+)": (\{.*?\})`', README)
    monkeypatch.setitem(catalogue.QUERIES, name, given[key])
    monkeypatch.setitem(VALIDATION, name, ast.literal_eval(parameters))
    words = ["verify", name, "--data", str(data), "--logical", "1,7", "--physical", "13,all", "--times", "10"]
    assert main(words) == 0
    assert "6 checked, 0 wrong" in capsys.readouterr().out


def test_its_tables_are_those_of_the_reference_records():
    assert with_tables(README, section(ROOT / "results" / REFERENCE)) == README, "make readme writes them"


def test_its_statement_reads_records(monkeypatch):
    (statement,) = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(ROOT)
    rows = duckdb.sql(statement).fetchall()
    assert len(rows) > 400
    assert [row[5] for row in rows] == sorted((row[5] for row in rows), reverse=True)


def test_the_files_that_it_names_exist():
    named = re.findall(r"`((?:datagen|dataflow|harness|queries|tests)/[\w/.]*)`", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_targets_that_it_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`| {4})make ([a-z][\w-]*)", README):
        assert target in NAMES or re.search(rf"^{target}:", makefile, re.MULTILINE), target
