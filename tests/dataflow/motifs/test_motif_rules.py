"""The rules of a delta query share their steps, propose few values, and refuse faults."""

from __future__ import annotations

from contextlib import closing

import pytest
from support.engines.chain import Chain
from support.engines.driving import arrays, at_once, maintained
from support.engines.explanations import parts
from support.engines.inside import worker_of
from support.written_plans.motifs import MOTIFS, NODES, ROWS, e, motif

from deltamark.dataflow.kernels.program import ProgramBlock
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.language.motif import Atom, delta_query
from deltamark.dataflow.motifs import static
from deltamark.dataflow.operators.extend import Extend, ExtendCounts
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.dataflow.types import TEXT, integer
from deltamark.errors import DeltamarkError

pytestmark = pytest.mark.usefixtures("small_slices")


def test_a_hub_is_extended_by_the_few_values_of_others():
    """All edges of a hub are inserted at one time: the rule whose fixed proposer is the hub proposes their square."""
    hub, degree = 5, 300
    hubs = [((hub, other), 1, 1) for other in range(10, 10 + degree)]
    edges = source("e", {"src": integer(0, 999), "dst": integer(0, 999)}, ROWS)
    atoms = [Atom(edges, tuple(variables)) for variables in ("ab", "bc", "ac")]
    proposals = {}
    for variant in ("least", "fixed"):
        with closing(Dataflow(delta_query(atoms, variant=variant).count())) as worker:
            worker.feed({"e": arrays(edges.schema, [((0, 1), 0, 1)])})  # the hub's edges are no load of empty indexes
            worker.feed({"e": arrays(edges.schema, hubs)})
            proposals[variant] = static.proposals(worker)
    assert proposals["least"] <= 2 * degree
    assert proposals["fixed"] >= degree * degree // 3  # about half of them: later edges are not proposed yet


def test_shards_with_indexes_by_key_propose_few_values_and_store_each_edge_once():
    hub, degree, shards = 5, 300, 3
    hubs = [((hub, other), other // 10, 1) for other in range(10, 10 + degree)]
    edges = source("e", {"src": integer(0, 999), "dst": integer(0, 999)}, ROWS)
    atoms = [Atom(edges, tuple(variables)) for variables in ("ab", "bc", "ac")]
    proposals = {}
    for variant in ("least", "fixed"):
        with closing(Chain(by_key(delta_query(atoms, variant=variant).count()), shards)) as chain:
            chain.feed({"e": arrays(edges.schema, hubs)})
            programs = [(stage, worker_of(each)) for (stage, _), each in chain.live.items()]
            proposals[variant] = sum(static.proposals(program) for _, program in programs)
            first = [program.state_rows() for stage, program in programs if stage == 1]
            assert sum(first) <= 4 * degree
    assert proposals["least"] <= 2 * degree
    assert proposals["fixed"] >= degree * degree // 3


STEPS = {"triangle": 3, "4-clique": 9, "diamond": 8, "house": 19}


@pytest.mark.parametrize("name", STEPS)
def test_rules_share_their_common_steps(name):
    """Alone, the six rules of a 4-clique would take twelve steps, the eight of a house twenty-four."""
    assert sum(isinstance(node, Extend) for node in walk(motif(name).node)) == STEPS[name]


def test_a_rule_is_one_extension_over_two_indexes_for_all():
    with closing(Dataflow(motif("4-clique"))) as worker:
        assert parts(worker.explain(), "index") == ["index from src to dst", "index from dst to src"]


TOO_MANY_DELETED = {
    "never-there": [((1, 2), 9, -1)],
    "deleted-twice": [((1, 2), 1, 1), ((3, 3), 1, 1), ((1, 2), 9, -2)],
    "there-again-later": [((3, 3), 1, 1), ((1, 2), 9, -1), ((1, 2), 10, 1)],
}


@pytest.mark.parametrize("updates", TOO_MANY_DELETED.values(), ids=TOO_MANY_DELETED.keys())
@pytest.mark.parametrize("one_by_one", [False, True])
def test_deleting_an_absent_edge_is_an_error_that_names_edge_and_time(updates, one_by_one):
    collection = motif("triangle").count()
    feeds = [[time] for time in (1, 9, 10)] if one_by_one else [[1, 9, 10]]
    with pytest.raises(DeltamarkError, match=r"negative multiplicity.*src=1, dst=2 at time 9"):
        maintained(collection, {"e": updates}, feeds)


def test_a_weight_of_more_than_64_bits_is_an_error():
    heavy = source("e", {"src": NODES, "dst": NODES}, 2**62)
    collection = delta_query([Atom(heavy, ("a", "b")), Atom(heavy, ("b", "c"))])
    for each in (collection, collection.count()):
        with pytest.raises(DeltamarkError, match="a weight needs more than 64 bits"):
            at_once(each, {"e": [((1, 2), 0, 2**40), ((2, 1), 0, 2**40)]})


def test_a_house_is_counted_by_its_triangles_and_two_lists():
    """A triangle has 30 roofs over one side, and its vertices have 30 common successors."""
    graph = [((0, 1), 0, 1), ((0, 2), 0, 1), ((1, 2), 0, 1)]
    graph += [((at, 10 + each), 1, 1) for each in range(30) for at in (1, 2)]
    graph += [((at, 50 + each), 1, 1) for each in range(30) for at in (0, 1, 2)]
    edges = source("e", {"src": integer(0, 99), "dst": integer(0, 99)}, ROWS)
    house = delta_query([Atom(edges, tuple(each.split(":")[1])) for each in MOTIFS["house"][0].split()])
    rows, found = {}, {}
    for by in ((), ("d", "e")):
        with closing(Dataflow(house.count(by))) as worker:
            out = worker.feed({"e": arrays(edges.schema, graph)})
            rows[by], found[by] = (
                sum(worker.states(ExtendCounts, ExtendCounts.extended)),
                int((out.columns["count"] * out.diff).sum()),
            )
    assert found[()] == found["d", "e"] == 30 * 60
    assert rows[()] < 30 * 60 < rows["d", "e"]


texts = source("texts", {"a": TEXT, "b": TEXT}, ROWS)
FAULTS = {
    "no atoms": lambda: delta_query([]),
    "not a variable for each column": lambda: Atom(e, ("a",)),
    "a variable of different types.*b: ": lambda: delta_query([Atom(e, ("a", "b")), Atom(texts, ("b", "c"))]),
    "texts cannot be indexed": lambda: delta_query([Atom(texts, ("a", "b")), Atom(texts, ("b", "c"))]),
    "unknown variable": lambda: delta_query([Atom(e, ("a", "b"))], [col.a < col.x]),
}


@pytest.mark.parametrize("words", FAULTS)
def test_an_invalid_motif_is_an_error(words):
    with pytest.raises(DeltamarkError, match=words.replace("no atoms", "without atoms")):
        FAULTS[words]()


def test_slices_become_smaller_while_they_make_too_many_rows(monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 4096)
    edges = source("e", {"src": integer(0, 1999), "dst": integer(0, 1999)}, ROWS)
    ends = [((at, 0), 0, 1) for at in range(1, 701)], [((0, at), 1, 1) for at in range(1, 1401)]
    path = delta_query([Atom(edges, ("a", "b")), Atom(edges, ("b", "c"))])
    with closing(Dataflow(path.aggregate(count=count(), ends=(col.a + col.c).sum()))) as worker:
        for each in ends:
            out = worker.feed({"e": arrays(edges.schema, each)})
        assert 700 * 1400 + 700 in out.columns["count"].tolist()  # the paths to vertex 0 and on, in both orders
        schedule = worker_of(worker)._schedule.block
        assert ProgramBlock(schedule).as_words.slice_rows < 4096
