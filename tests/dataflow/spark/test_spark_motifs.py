"""Motif counts on Spark equal those of DuckDB, for static and changing graphs, with broadcast and exchanged indexes."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from support.engines.chain import Chain

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.dataflow.types import integer
from deltamark.datagen.graphs.generator import graph
from deltamark.harness.cli.main import main
from deltamark.harness.engines.spark_feed import on_master
from deltamark.harness.suites.graphs.counting import counted, oracle
from deltamark.harness.suites.graphs.graph_data import WORKLOADS
from deltamark.harness.suites.graphs.spark_motifs import (
    INDEX_BYTES,
    INDEX_SHARE,
    GraphLocation,
    Seeded,
    executor_bytes,
    index_placement,
    seeded,
)
from deltamark.queries.graph.motifs import MOTIFS, motif

MASTER = "local[2]"

pytestmark = pytest.mark.waits(2)


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    """A file of 400 edges, some of which occur twice and some of which are loops."""
    path = tmp_path_factory.mktemp("graph") / "edges.txt"
    pairs = np.stack(graph("rmat:7").edges(0), axis=1)[:400]
    path.write_text("".join(f"{src} {dst}\n" for src, dst in pairs.tolist()))
    return path


def answer(capsys, edges, *words):
    """Run the motif command on Spark; return its output."""
    options = "--graph", str(edges), "--engine", "spark", "--master", MASTER, "--shards", "2"
    assert main(["motif", *words, *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["triangle", "4-clique"])
def test_motifs_of_a_static_graph(name, edges, capsys):
    assert "verified with DuckDB" in answer(capsys, edges, name, "--static", "--batch", "300", "--check", "1")


def test_motifs_of_a_changing_graph(edges, capsys):
    """Exchange the indexes, as a static graph does not. A 4-clique has twice the stages: see test_motif.py."""
    options = "--batch", "40", "--variant", "fixed", "--indexes", "exchange", "--check", "9"
    words = "triangle", "--workload", "half", *options
    assert "verified with DuckDB after 2 of 2 batches" in answer(capsys, edges, *words)


def test_rows_equal_those_of_one_worker(edges, capsys):
    words = ["triangle", "--show", "rows"]
    assert main(["motif", *words, "--graph", str(edges)]) == 0
    expected = capsys.readouterr().out
    assert answer(capsys, edges, *words) == expected


PATTERNS = ("triangle", "4-clique", "diamond", "once(a,b), once(b,c), e(a,c), a<b", "e(a,b), e(c,d)", "e(a,a), e(a,b)")


@pytest.mark.draws(4)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("variant", ["least", "fixed"])
def test_seeding_the_first_atom_in_batches_finds_all_motifs(pattern, variant, edges):
    place = GraphLocation(str(edges), "", orient=False)
    seeds, graph_of = Seeded.of(place, 150), place.edges()
    with closing(Chain(by_key(seeded(motif(pattern), graph_of, variant).count()), 2)) as chain:
        batches = [[seeds.take(batch, piece, 2) for piece in range(2)] for batch in range(seeds.batches)]
        total = sum(counted(chain.feed(*pieces)) for pieces in batches)
    assert total == oracle(motif(pattern), WORKLOADS["load"](graph_of, 1), len(graph_of))


def test_indexes_are_broadcast_if_they_fit_an_executor():
    memory = executor_bytes(on_master(MASTER, 2))
    assert memory == 1 << 30
    max_rows = memory // INDEX_SHARE // (2 * INDEX_BYTES)
    for rows, expected in ((max_rows, "broadcast"), (max_rows + 1, "exchange")):
        edges = source("e", {"src": integer(0, 9), "dst": integer(0, 9)}, rows)
        plan = MOTIFS["triangle"].dataflow({"e": edges})
        assert index_placement("auto", plan, memory) == expected
        assert index_placement("broadcast", plan, memory) == "broadcast"


UNSUPPORTED = {
    "Spark has shards instead of workers": ["--workers", "2"],
    "Spark only counts in static graphs": ["--static", "--show", "rows"],
    "only a static graph has lists": ["--show", "lists"],
    "triangles are not kept by key": ["--static", "--triangles", "--indexes", "exchange"],
}


@pytest.mark.parametrize("message", UNSUPPORTED)
def test_unsupported_options_are_errors(message, edges, capsys):
    words = ["motif", "triangle", "--graph", str(edges), "--engine", "spark", "--master", MASTER]
    assert main([*words, *UNSUPPORTED[message]]) == 2
    assert message in capsys.readouterr().err
