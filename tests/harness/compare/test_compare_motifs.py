"""The measurement server of motifs: its counts are right, and wrong counts are reported."""

from __future__ import annotations

from dataclasses import asdict, replace

import msgspec
import pytest
from support.harness.local_tasks import draw
from support.paths import ROOT

from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of
from deltamark.harness.benchmarks.cell import MotifCell
from deltamark.harness.compare import motifs
from deltamark.harness.compare.motifs import MotifServer, expected_count
from deltamark.harness.compare.rule import QUANTITIES
from deltamark.harness.compare.sides import SERVERS, SideError, SideSpec, opener
from deltamark.harness.measure.client import OracleReply, Request, SampleReply
from deltamark.harness.suites.graphs.graph_data import oriented, stored

CELLS = [MotifCell("triangle", "rmat:7"), MotifCell("triangle", "rmat:7", 100), MotifCell("4-clique", "rmat:7")]

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    data = tmp_path_factory.mktemp("graphs")
    draw(data, ["rmat:7"])
    return directory_of(data, graph("rmat:7"))


@pytest.fixture(scope="module")
def server(directory):
    server = MotifServer(oriented(stored(directory)))
    server.warm("tpch")
    return server


def reply(server, request, cell):
    raw = {"do": request, "cell": asdict(cell), "rounds": [], "limit": 600.0, "sample": 0, "runs": 1, "compare": []}
    return server.reply(msgspec.convert(raw, Request[MotifCell]))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.motif} {cell.place}")
def test_counts_are_those_by_hand_after_the_last_batch(server, directory, cell):
    assert reply(server, "ask", cell) == OracleReply()
    answer = reply(server, "cell", cell)
    assert answer.status == "ok"
    counts = answer.digest.split()
    assert int(counts[-1]) == expected_count(cell, oriented(stored(directory))) > 0
    assert len(counts) == (3 if cell.batch else 1)  # the loaded graph, and two batches
    sample = reply(server, "sample", cell)
    assert all(getattr(sample, quantity.name) >= 0 for quantity in QUANTITIES)
    assert sample.time > 0
    assert sample.state > 0


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.motif} {cell.place}")
def test_a_wrong_count_is_wrong(server, cell, monkeypatch):
    reply(server, "ask", cell)
    run_once = motifs.run_once
    monkeypatch.setattr(motifs, "run_once", lambda *args: replace(run_once(*args), output=(7,)))
    answer = reply(server, "cell", cell)
    assert answer.status == "wrong"
    assert answer.problem.startswith("7, by hand ")


def test_counts_that_differ_from_run_to_run_are_wrong(server, monkeypatch):
    outputs, run_once = iter(range(9)), motifs.run_once
    monkeypatch.setattr(motifs, "run_once", lambda *args: replace(run_once(*args), output=(next(outputs),)))
    answer = reply(server, "sample", CELLS[0])
    assert answer == SampleReply(status="wrong", problem="runs of one process differ: (0,), (1,), (2,)")


def test_sides_check_and_sample(directory):
    both = [SideSpec(name, name, ROOT, SERVERS["graph"]) for name in ("base", "head")]
    with opener(dict.fromkeys(both, directory), 600.0)() as sides:
        assert len({side.check(CELLS[1], []) for side in sides.values()}) == 1
        assert all(side.sample(CELLS[1])["time"] > 0 for side in sides.values())
        with pytest.raises(SideError, match="unknown motif by hand: triangel; did you mean triangle"):
            sides["head"].check(MotifCell("triangel", "rmat:7"), [])
