"""Laws of motifs over triangles: their rows equal those over edges, with equal weights, at every time."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import added, between, feed, maintained
from support.random_plans.strategies import cuts, rows, streams_of
from support.reference.answers import answer, changes
from support.written_plans.motifs import e

from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.suites.graphs.counting import indexed, triangular
from deltamark.harness.suites.graphs.graph_data import Edges
from deltamark.queries.graph.motifs import MOTIFS
from deltamark.queries.graph.pattern import read
from deltamark.queries.graph.triangles import by_triangles

pytestmark = pytest.mark.usefixtures("small_slices")
few = settings(max_examples=5)
PATTERNS = {
    "triangle": MOTIFS["triangle"],
    "4-clique": MOTIFS["4-clique"],
    "house": MOTIFS["house"],
    "tail": read("e(a,b), e(b,c), e(a,c), e(c,d), a<d"),
    "edge-twice": read("e(a,b), e(b,c), e(a,b), e(a,c)"),
}
each_pattern = pytest.mark.parametrize("name", PATTERNS)


def by(name: str, once: str = "once"):
    found = by_triangles(PATTERNS[name], "e", once).dataflow({"e": e, "once": e.distinct()})
    return found.select(*PATTERNS[name].variables)


def expected(name: str, streams):
    return changes(PATTERNS[name].dataflow({"e": e}, "binary").node, streams)


@st.composite
def toggles(draw):
    """Draw streams that insert absent edges and delete live ones."""
    live, stream = set(), []
    for row, time in draw(st.lists(st.tuples(rows(e.schema), st.integers(0, 2)), max_size=25)):
        stream.append((row, time + (stream[-1][1] if stream else 0), -1 if row in live else 1))
        live ^= {row}
    return {"e": stream}


@each_pattern
@few
@given(data=st.data())
def test_a_motif_over_triangles_has_the_rows_of_the_motif_over_edges(name, data):
    streams = data.draw(streams_of(by(name)))
    assert maintained(by(name), streams, data.draw(cuts(streams))) == expected(name, streams)


@each_pattern
@few
@given(data=st.data())
def test_one_relation_of_triangles_is_enough_for_edges_without_repeats(name, data):
    streams = data.draw(toggles())
    assert maintained(by(name, "e"), streams, data.draw(cuts(streams))) == expected(name, streams)


@settings(max_examples=4)
@given(data=st.data())
def test_any_number_of_workers_finds_the_same(data):
    found = by("4-clique")
    streams = data.draw(streams_of(found))
    feeds = data.draw(cuts(streams))
    with closing(Dataflow(found, workers=2)) as engine:
        made = added(feed(engine, found, between(streams, set(times))) for times in feeds)
    assert made == expected("4-clique", streams)


def test_cliques_are_covered_by_the_triangles_at_their_first_vertex():
    assert str(by_triangles(MOTIFS["4-clique"], "e", "e")) == "tri_e_e_e(a,b,c), tri_e_e_e(a,b,d), tri_e_e_e(a,c,d)"
    assert len(by_triangles(MOTIFS["5-clique"], "e", "e").atoms) == 6
    assert len(by_triangles(MOTIFS["5-clique"], "e", "once").definitions) == 3
    inputs = [node for node in walk(by("4-clique", "e").node) if isinstance(node, Threshold)]
    assert inputs == []


def test_a_motif_without_triangles_is_an_error_that_names_it():
    with pytest.raises(DeltamarkError, match=r"without triangles.*e\(a,b\), e\(b,c\), a<c"):
        by_triangles(read("e(a,b), e(b,c), a<c"), "e", "e")


@each_pattern
@few
@given(data=st.data())
def test_bigjoin_finds_the_same_over_triangles(name, data):
    drawn = data.draw(st.lists(rows(e.schema), min_size=1, max_size=20))
    edges = Edges("drawn", *(np.array(column) for column in zip(*drawn, strict=True)))
    pattern = triangular(PATTERNS[name], edges)
    order, found = [], Counter()
    with closing(indexed(pattern, edges)) as static:
        order = [static.variables.index(each) for each in PATTERNS[name].variables]
        for part in static.rows(3):
            for row in part.tolist():
                found[tuple(row[place] for place in order)] += row[-1]
        assert static.count(3) == sum(found.values())
    streams = {"e": [(row, 0, 1) for row in drawn]}
    assert found == answer(PATTERNS[name].dataflow({"e": e}, "binary").node, streams, 0)


def test_the_size_of_an_index_of_triangles_follows_their_number():
    """The size does not depend on the distances between the numbers of vertices."""
    path = np.arange(200) * 5000
    edges = Edges("strip", np.concatenate([path[:-1], path[:-2]]), np.concatenate([path[1:], path[2:]]))
    with closing(indexed(triangular(MOTIFS["4-clique"], edges), edges)) as static:
        assert static.count() == 0
        assert static.index_rows() == 198
        assert static.index_bytes() < 1 << 20


@pytest.mark.parametrize("name", ["4-clique", "house", "5-clique"])
@pytest.mark.parametrize("more", [["--workload", "half", "--batch", "60"], ["--static"], ["--workload", "insert"]])
@pytest.mark.parametrize("twice", [0, 20])
def test_the_command_counts_by_triangles_as_duckdb_does_by_edges(name, more, twice, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 4096)
    random = np.random.default_rng(5)
    edges = np.unique(np.sort(random.integers(0, 25, (180, 2)), axis=1), axis=0)
    lines = [f"{a} {b}" for a, b in random.permutation(np.concatenate([edges, edges[:twice]])).tolist()]
    (tmp_path / "x.txt").write_text("\n".join(lines))
    words = ["motif", name, "--graph", str(tmp_path / "x.txt"), "--triangles", "--check", "9", *more]
    assert main(words) == 0
    assert "verified with DuckDB" in capsys.readouterr().out
