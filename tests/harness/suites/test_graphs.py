"""Generated graphs, motifs as text, and the command that counts them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.harness.local_tasks import draw

from deltamark.datagen.graphs.generator import KINDS, graph
from deltamark.datagen.graphs.make import directory_of
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.suites.graphs.counting import LOOPS, by_hand, oracle
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, oriented, stored
from deltamark.harness.suites.graphs.virtual_shards import copies, edge_cover
from deltamark.harness.suites.reporter import MAX_BAD_LINES
from deltamark.queries.graph.motifs import MOTIFS, motif
from deltamark.queries.graph.pattern import read

SMALL = ("rmat:7", "rmat-hubs:7", "zipf:7", "hub:50", "star:20", "grid:5", "star:50", "grid:7")

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """A directory with small graphs, made by the tasks that Spark would run."""
    data = tmp_path_factory.mktemp("graphs")
    draw(data, SMALL)
    return data


@pytest.mark.parametrize("name", SMALL)
def test_edges_are_distinct_and_join_vertices_of_the_graph(graphs, name):
    edges, nodes = stored(directory_of(graphs, graph(name))), graph(name).nodes
    pairs = set(zip(edges.src.tolist(), edges.dst.tolist(), strict=True))
    assert len(pairs) == len(edges)
    assert all(src != dst and min(src, dst) >= 0 and max(src, dst) < nodes for src, dst in pairs)
    assert {kind.split(":")[0] for kind in SMALL} == set(KINDS)


def test_a_graph_has_its_planted_edges_and_triangles(graphs):
    assert Counter(stored(directory_of(graphs, graph("hub:50"))).src.tolist())[87] == 50
    for name, triangles in (("star:20", 20), ("grid:5", 5**3)):
        edges = stored(directory_of(graphs, graph(name)))
        assert oracle(MOTIFS["triangle"], WORKLOADS["load"](edges, 1), len(edges)) == triangles


def test_labels_are_a_permutation(graphs):
    plain, labelled = (
        np.sort(np.bincount(stored(directory_of(graphs, graph(name))).src)) for name in ("rmat-hubs:7", "rmat:7")
    )
    assert plain[plain > 0].tolist() == labelled[labelled > 0].tolist()


def test_orientation_keeps_each_pair_once_from_the_lower_degree():
    edges = oriented(Edges("x", np.array([5, 7, 7, 9, 5, 9]), np.array([7, 5, 9, 9, 9, 11])))
    assert len(edges) == 4
    assert (edges.src < edges.dst).all()
    assert np.bincount(np.concatenate([edges.src, edges.dst])).tolist() == [1, 2, 2, 3]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_deletes_only_live_edges(workload):
    edges = Edges("x", np.arange(100) % 7, np.arange(100) % 5)
    stream = WORKLOADS[workload](edges, 3)
    fed = len(stream.loaded().time) + sum(len(batch.time) for batch in stream.batches())
    assert fed == len(stream.rows)
    assert all(stream.live(stop).min() >= 0 for stop in range(1, fed + 1))


@pytest.mark.parametrize("words", ["rmat", "rmat:0", "rmat:99", "hub:x", "nothing:3"])
def test_an_unknown_graph_is_an_error(words):
    with pytest.raises(DeltamarkError, match="graph"):
        graph(words)


def test_a_path_without_a_file_is_an_error_that_names_it(tmp_path, capsys):
    assert main(["motif", "triangle", "--graph", str(tmp_path / "none.txt")]) == 2
    assert f"nor is there such a file: {tmp_path / 'none.txt'}" in capsys.readouterr().err


def test_loops_alone_cannot_be_oriented(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("3 3\n4 4\n")
    words = ["motif", "triangle", "--graph", str(tmp_path / "x.txt")]
    assert main(words) == 0
    assert capsys.readouterr().out == "2\n"
    assert main([*words, "--orient"]) == 2
    assert "no edge between two vertices" in capsys.readouterr().err


def test_once_has_each_edge_once(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n")
    words = ["motif", "once(a,b), once(b,c), e(a,c)", "--graph", str(tmp_path / "x.txt"), "--check", "1"]
    for more in ([], ["--static"]):
        assert main([*words, *more]) == 0
        assert capsys.readouterr().out.startswith("2 (")


@pytest.mark.parametrize("triangles", [[], ["--triangles"]])
def test_repeated_edges_count_twice_and_loops_count(triangles, tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n3 3\n")
    words = ["motif", "4-clique", "--graph", str(tmp_path / "x.txt"), "--check", "9", *triangles]
    for more in ([], ["--static"], ["--workload", "half", "--batch", "1"]):
        assert main([*words, *more]) == 0
        assert "verified with DuckDB" in capsys.readouterr().out


def test_vertices_that_are_too_far_apart_are_an_error(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 9000000000000000000\n")
    assert main(["motif", "triangle", "--graph", str(tmp_path / "x.txt")]) == 2
    assert "too wide for an index" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["", "e(a,b", "e(a b)", "e(a,)", "a<b", "e(a,b) e(b,c)", "e(a,b), b<x", "e(a,b),"])
def test_an_invalid_motif_is_an_error(words):
    with pytest.raises(DeltamarkError, match=r"not a motif|unknown variable"):
        read(words)


def test_a_motif_has_a_name_or_is_parsed():
    assert motif("triangle") == motif("e(a,b),e(b,c),  e(a,c)")
    assert motif("e(a,b), a<b").smaller == (("a", "b"),)
    assert len(MOTIFS["6-clique"].atoms) == 15


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", MOTIFS)
@pytest.mark.parametrize("workload", ["half", "insert"])
def test_the_command_has_the_counts_of_duckdb_after_every_batch(graphs, name, workload, tmp_path, capsys):
    edges = stored(directory_of(graphs, graph("rmat:7")))
    sizes = {"5-clique": 250, "6-clique": 250, "house": 250}
    kept = slice(0, sizes.get(name, 700))
    (tmp_path / "x.txt").write_text(
        "".join(f"{a} {b}\n" for a, b in zip(edges.src[kept], edges.dst[kept], strict=True))
    )
    how = ["--workload", workload, "--batch", "60", "--check", "99"]
    assert main(["motif", name, "--graph", str(tmp_path / "x.txt"), *how]) == 0
    assert "verified with DuckDB" in capsys.readouterr().out


def test_the_command_lists_rows_with_their_weights(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n3 3\n")
    assert main(["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--show", "rows"]) == 0
    assert capsys.readouterr().out.splitlines() == ["a,b,c,times", "1,2,3,2", "1,3,3,4", "2,3,3,1", "3,3,3,1"]


@pytest.mark.parametrize("show", ["count", "rows"])
def test_the_command_finds_motifs_by_bigjoin(tmp_path, capsys, show):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n3 3\n")
    words = ["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--show", show]
    found = []
    for more in ([], ["--static", "--batch", "2"]):
        assert main([*words, *more]) == 0
        found.append(sorted(capsys.readouterr().out.splitlines()))
    assert found[0] == found[1]


def test_the_command_shows_the_loads_of_shards(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n3 3\n")
    words = ["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--shards", "4"]
    assert main([*words, "--static", "--check", "1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {line[1]: line[3] for line in lines if len(line) > 3 and line[1].startswith("bigjoin")}
    assert found == {"bigjoin": "8", "bigjoin-s": "8"}


def test_workers_count_motifs_in_a_static_graph(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n3 3\n")
    words = ["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--static", "--workers", "2"]
    assert main([*words, "--check", "1"]) == 0
    assert capsys.readouterr().out == "8 (verified with DuckDB)\n"
    assert main([*words, "--show", "lists"]) == 2
    assert "several workers only count" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--static", "--show", "rows"]])
def test_virtual_shards_of_changing_graphs_are_refused(tmp_path, capsys, more):
    (tmp_path / "x.txt").write_text("1 2\n")
    assert main(["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--shards", "4", *more]) == 2
    assert "virtual shards only count in static graphs" in capsys.readouterr().err


def test_the_command_finds_a_disagreement_of_algorithms(tmp_path, capsys, monkeypatch):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n")
    monkeypatch.setattr("deltamark.harness.suites.graphs.virtual_shards.ShardedRun.count", lambda _: 5)
    assert main(["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--static", "--shards", "2"]) == 2
    assert "WRONG" in capsys.readouterr().err


COVERS = {"e(a,b)": 1, "e(a,b), e(b,c)": 2, "e(a,b), e(b,c), e(c,d)": 2, "triangle": 1.5, "5-clique": 2.5, "diamond": 2}


@pytest.mark.parametrize("words", COVERS)
def test_the_edge_cover_of_a_motif_is_the_known_one(words):
    assert edge_cover([variables for _, variables in motif(words).atoms]) == COVERS[words]


def test_shares_sends_an_edge_to_all_shards_that_agree_with_its_ends():
    """On a cube of eight shards, two a variable, each of the three edges of a triangle goes to two."""
    assert copies([("a", "b"), ("b", "c"), ("a", "c")], 8) == pytest.approx(3 * 2)


def test_the_command_lists_prefixes_and_their_possible_extensions(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n1 3\n3 3\n")
    words = ["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--show", "lists"]
    assert main([*words, "--static"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "1,2,1,3*2",
        "1,3,2,3*2",
        "2,3,1,3",
        "3,3,1,3",
        "a,b,times,c",
    ]
    assert main(words) == 2
    assert "add --static" in capsys.readouterr().err


def test_the_command_finds_a_wrong_answer(tmp_path, capsys, monkeypatch):
    (tmp_path / "x.txt").write_text("1 2\n2 3\n1 3\n")
    monkeypatch.setattr("deltamark.harness.cli.queries.motif.oracle", lambda *_: 5)
    assert main(["motif", "triangle", "--graph", str(tmp_path / "x.txt"), "--check", "1"]) == 2
    assert "WRONG" in capsys.readouterr().err


def test_the_suite_measures_every_table(graphs, tmp_path, capsys):
    sizes = ["SCALE=7", "VERTICES=zipf:7", "HUB=50", "BATCHES=1,100", "RUNS=1"]
    assert main(["bench", "SUITE=graph", *sizes, f"DATA={graphs}", f"RESULTS={tmp_path}"]) == 0
    out = capsys.readouterr().out
    for title in (
        "Motifs in a static graph (rmat:7)",
        "Workers against one hand-written thread (rmat:7)",
        "Sizes of indexes of edges (rmat:7)",
        "BiGJoin by the size of its rounds (rmat:7)",
        "Triangles while edges are inserted and deleted (rmat:7)",
        "Vertex by vertex (zipf:7)",
        "Insertion of a vertex with many edges (hub:50)",
        "Loads of virtual shards (triangle, 16 shards)",
        "Copies of an edge on all shards together (formulas)",
    ):
        assert title in out
    assert "WRONG" not in out


WRONG = {
    "triangle": [
        "rmat:7 static triangle", "rmat:7 at once triangle", "rmat:7 changing 100", "hub:50 hub least",
        "hub:50 hub fixed", "hub:50 hub binary",
    ],
    "4-clique": ["rmat:7 static 4-clique", "rmat:7 rounds"],
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_the_suite_finds_a_wrong_count(graphs, tmp_path, capsys, monkeypatch, name):
    monkeypatch.setitem(LOOPS, name, lambda *_: 5)
    sizes = ["SCALE=7", "VERTICES=zipf:7", "HUB=50", "BATCHES=100", "RUNS=1"]
    assert main(["bench", "SUITE=graph", *sizes, f"DATA={graphs}", f"RESULTS={tmp_path}"]) == 2
    wrong = [line.partition(" WRONG")[0].strip() for line in capsys.readouterr().err.splitlines()]
    listed = [f"graph {cell}" for cell in WRONG[name]]
    more = len(listed) - MAX_BAD_LINES
    assert wrong == [*listed[:MAX_BAD_LINES], *([f"and {more} more"] if more > 0 else [])]


@pytest.mark.parametrize("name", LOOPS)
def test_programs_by_hand_have_the_counts_of_duckdb(graphs, name):
    edges = oriented(stored(directory_of(graphs, graph("rmat:7"))))
    assert by_hand(name, edges)() == oracle(MOTIFS[name], WORKLOADS["load"](edges, 1), len(edges))
