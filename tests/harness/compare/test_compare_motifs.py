"""The sides of the gate for motifs: what they count is right, and what is not is told."""

from __future__ import annotations

import gc
from dataclasses import asdict, replace

import pytest
from support.in_turn import draw
from support.paths import ROOT

from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of
from deltamark.harness.compare import motifs
from deltamark.harness.compare.motifs import MotifServer, expected
from deltamark.harness.compare.rule import QUANTITIES
from deltamark.harness.compare.side import SideError, opener
from deltamark.harness.compare.trees import Tree
from deltamark.harness.measure.cell import MotifCell
from deltamark.harness.measure.client import ServerSpec
from deltamark.harness.measure.messages import AskReply, SampleReply, decode_request
from deltamark.harness.suites.graphs.graph_data import oriented, stored

CELLS = [MotifCell("triangle", "rmat:7"), MotifCell("triangle", "rmat:7", 100), MotifCell("4-clique", "rmat:7")]

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    data = tmp_path_factory.mktemp("graphs")
    draw(data, ["rmat:7"])
    return directory_of(data, graph("rmat:7"))


@pytest.fixture(scope="module")
def parent(directory):
    made = MotifServer(oriented(stored(directory)))
    made.warm()
    gc.unfreeze()
    return made


def asked(parent, what, cell):
    raw = {"do": what, "cell": asdict(cell), "rounds": [], "limit": 600.0, "sample": 0, "runs": 1, "compare": []}
    return parent.reply(decode_request(raw, MotifCell))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.motif} {cell.place}")
def test_counts_are_those_by_hand_after_the_last_batch(parent, directory, cell):
    assert asked(parent, "ask", cell) == AskReply()
    said = asked(parent, "cell", cell)
    assert said.status == "ok"
    counts = said.digest.split()
    assert int(counts[-1]) == expected(cell, oriented(stored(directory))) > 0
    assert len(counts) == (3 if cell.batch else 1)  # of what was loaded, and two batches
    sample = asked(parent, "sample", cell)
    assert all(getattr(sample, each.name) >= 0 for each in QUANTITIES)
    assert sample.time > 0
    assert sample.state > 0


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.motif} {cell.place}")
def test_a_wrong_count_is_wrong(parent, cell, monkeypatch):
    asked(parent, "ask", cell)
    seen = motifs.seen
    monkeypatch.setattr(motifs, "seen", lambda *of: replace(seen(*of), shown=(7,)))
    said = asked(parent, "cell", cell)
    assert said.status == "wrong"
    assert said.problem.startswith("7, by hand ")


def test_counts_that_differ_from_run_to_run_are_wrong(parent, monkeypatch):
    shown, seen = iter(range(9)), motifs.seen
    monkeypatch.setattr(motifs, "seen", lambda *of: replace(seen(*of), shown=(next(shown),)))
    said = asked(parent, "sample", CELLS[0])
    assert said == SampleReply(status="wrong", problem="runs of one process show (0,), (1,), (2,)")


def test_sides_check_and_sample(directory):
    both = tuple(Tree(name, "", name, ROOT) for name in ("base", "head"))
    with opener(both, ServerSpec(directory, "deltamark.harness.compare.motifs"), 600.0)() as sides:
        assert len({side.check(CELLS[1], []) for side in sides.values()}) == 1
        assert all(side.sample(CELLS[1])["time"] > 0 for side in sides.values())
        with pytest.raises(SideError, match="unknown motif by hand: triangel; did you mean triangle"):
            sides["head"].check(MotifCell("triangel", "rmat:7"), [])
