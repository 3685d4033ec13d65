"""Motifs on Spark are as many as DuckDB finds, with indexes at every shard or spread by key, static and in motion."""

from __future__ import annotations

import numpy as np
import pytest

from dataflow.collection import source
from dataflow.types import integer
from datagen.graph import graph
from harness.cli import main
from harness.distributed import SESSIONS, on_master
from harness.spark_motifs import INDEX_BYTES, INDEX_SHARE, executor_bytes, settled
from queries.graph.motifs import MOTIFS

MASTER = "local[2]"
each_way = pytest.mark.parametrize("indexes", ["broadcast", "exchange"])


@pytest.fixture(scope="module", autouse=True)
def _one_session():
    yield
    SESSIONS.close()


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    """A file of some hundred edges, a few of them twice and some from a vertex to itself."""
    path = tmp_path_factory.mktemp("graph") / "edges.txt"
    pairs = np.stack(graph("rmat:6").edges(0), axis=1)[:400]
    path.write_text("".join(f"{src} {dst}\n" for src, dst in pairs.tolist()))
    return path


def answer(capsys, *words):
    """Run the command, which compares with DuckDB; return what it prints."""
    asked = ["motif", *words, "--engine", "spark", "--master", MASTER, "--shards", "2", "--check", "9"]
    assert main(asked) == 0
    return capsys.readouterr().out


@each_way
@pytest.mark.parametrize("name", ["triangle", "4-clique"])
def test_a_graph_that_does_not_change(name, indexes, edges, capsys):
    words = name, "--graph", str(edges), "--static", "--indexes", indexes, "--batch", "300"
    assert "as DuckDB says" in answer(capsys, *words)


@each_way
@pytest.mark.parametrize("name", ["triangle", "4-clique"])
def test_edges_that_come_and_go(name, indexes, edges, capsys):
    words = name, "--graph", str(edges), "--workload", "half", "--indexes", indexes, "--batch", "50"
    assert "as DuckDB says after 2 of 2 batches" in answer(capsys, *words)


def test_rows_are_those_of_one_worker(edges, capsys):
    words = ["motif", "triangle", "--graph", str(edges), "--show", "rows"]
    assert main(words) == 0
    expected = capsys.readouterr().out
    assert main([*words, "--engine", "spark", "--master", MASTER, "--indexes", "exchange"]) == 0
    assert capsys.readouterr().out == expected


def test_indexes_are_broadcast_while_they_fit_an_executor():
    memory = executor_bytes(on_master(MASTER, 2))
    assert memory == 1 << 30
    most = memory // INDEX_SHARE // (2 * INDEX_BYTES)
    for rows, expected in ((most, "broadcast"), (most + 1, "exchange")):
        edges = source("e", {"src": integer(0, 9), "dst": integer(0, 9)}, rows)
        found = MOTIFS["triangle"].dataflow({"e": edges})
        assert settled("auto", found, memory) == expected
        assert settled("broadcast", found, memory) == "broadcast"


FAULTS = {
    "no workers but shards on Spark": ["--workers", "2"],
    "Spark only counts in graphs that do not change": ["--static", "--show", "rows"],
    "lists are of a graph that does not change": ["--show", "lists"],
    "triangles are not kept by key": ["--static", "--triangles", "--indexes", "exchange"],
}


@pytest.mark.parametrize("said", FAULTS)
def test_what_spark_does_not_do_is_an_error(said, edges, capsys):
    words = ["motif", "triangle", "--graph", str(edges), "--engine", "spark", "--master", MASTER]
    assert main([*words, *FAULTS[said]]) == 2
    assert said in capsys.readouterr().err
