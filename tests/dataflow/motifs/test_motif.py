"""Laws of motifs: delta queries change as the joins of whole collections do, at every time, in bags."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.chain import Chain, Pieces
from support.engines.driving import added, arrays, at_once, between, feed, maintained, stream_of, undone
from support.engines.explanations import parts
from support.engines.late import fed, live
from support.engines.laws import check_cuts, check_order
from support.random_plans.growth import Case
from support.random_plans.strategies import cuts, streams_of
from support.random_plans.streams import times_of
from support.reference.answers import changes
from support.written_plans.motifs import MOTIFS, NODES, ROWS, e, motif

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.program import ProgramBlock
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.language.motif import Atom, delta_query
from deltamark.dataflow.motifs import statistics
from deltamark.dataflow.plan.nodes import Extend, walk
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.dataflow.types import TEXT, integer
from deltamark.errors import DeltamarkError

few = settings(max_examples=5)
each_motif = pytest.mark.parametrize("name", MOTIFS)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Have times that are larger than a slice."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 3)


def drawn(data, name: str, variant="least") -> Case:
    found = motif(name, variant)
    return Case(found, data.draw(streams_of(found)))


@each_motif
@pytest.mark.parametrize("variant", ["least", "fixed"])
@few
@given(data=st.data())
def test_a_delta_query_is_the_join_of_whole_collections(name, variant, data):
    case = drawn(data, name, variant)
    expected = changes(motif(name, "binary").node, case.streams)
    assert maintained(case.collection, case.streams, data.draw(cuts(case.streams))) == expected


@each_motif
@few
@given(data=st.data(), seed=st.integers(0, 99))
def test_neither_cuts_nor_the_order_within_a_time_matter(name, data, seed):
    case = drawn(data, name)
    check_cuts(case, data.draw(cuts(case.streams)))
    check_order(case, seed)


@each_motif
@few
@given(data=st.data())
def test_what_has_gone_leaves_nothing(name, data):
    case = drawn(data, name)
    with closing(Dataflow(case.collection)) as worker:
        times = times_of(case.streams)
        whole = undone(case.streams)
        feed(worker, case.collection, case.streams)
        feed(worker, case.collection, between(whole, set(times_of(whole)) - set(times)))
        assert worker.state_rows() == 0


@each_motif
@settings(max_examples=4)
@given(data=st.data(), workers=st.sampled_from([2, 3]))
def test_any_number_of_workers_makes_the_changes_of_one(name, data, workers):
    case = drawn(data, name)
    feeds = data.draw(cuts(case.streams))
    with closing(Dataflow(case.collection, workers=workers)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


@each_motif
@settings(max_examples=4)
@given(data=st.data(), shards=st.sampled_from([1, 3]))
def test_a_motif_that_is_cut_into_stages_makes_the_changes_of_the_whole(name, data, shards):
    case = drawn(data, name)
    feeds = data.draw(cuts(case.streams))
    with closing(Pieces(case.collection, shards)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


@each_motif
@pytest.mark.parametrize("variant", ["least", "fixed"])
@settings(max_examples=2)
@given(data=st.data())
def test_shards_that_have_indexes_by_key_make_the_changes_of_the_whole(name, variant, data):
    case = drawn(data, name, variant)
    feeds = data.draw(cuts(case.streams))
    with closing(Pieces(by_key(case.collection), 2)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


@pytest.mark.parametrize("name", ["triangle", "4-clique", "with-nodes", "loop", "path"])
@settings(max_examples=4)
@given(data=st.data())
def test_workers_that_have_indexes_by_key_make_the_changes_of_one(name, data):
    case = drawn(data, name)
    feeds = data.draw(cuts(case.streams))
    with closing(Dataflow(by_key(case.collection), workers=2)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


def graph(seed: int, nodes: int, batches: int, size: int) -> list[Batch]:
    """Insert edges, some of them twice, and delete others, in batches of two times."""
    order, live, found = random.Random(seed), [], []
    for batch in range(batches):
        updates = []
        for at in range(size):
            time = 2 * batch + (at >= size // 2)
            if live and order.random() < 0.4 + 0.3 * (batch % 3 == 2):
                place = order.randrange(len(live))
                live[place], live[-1] = live[-1], live[place]
                updates.append((live.pop(), time, -1))
            else:
                edge = (min(order.randrange(nodes), order.randrange(nodes)), order.randrange(nodes))
                live.append(edge)
                updates.append((edge, time, 1))
        found.append(updates)
    return found


@pytest.mark.parametrize("variant", ["least", "fixed"])
@pytest.mark.parametrize("seed", range(3))
def test_triangles_after_every_batch_are_those_of_the_matrix(seed, variant, monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 64)
    nodes = 30
    edges = source("e", {"src": integer(0, nodes - 1), "dst": integer(0, nodes - 1)}, ROWS)
    atoms = [Atom(edges, tuple(variables)) for variables in ("ab", "bc", "ac")]
    triangles = delta_query(atoms, variant=variant).count()
    matrix, total = np.zeros((nodes, nodes), np.int64), 0
    with closing(Dataflow(triangles)) as worker:
        for updates in graph(seed, nodes, 24, 400):
            out = worker.feed({"e": arrays(edges.schema, updates)})
            total += int((out.diff * out.columns["count"]).sum())
            for edge, _, diff in updates:
                matrix[edge] += diff
            assert total == int(((matrix @ matrix) * matrix).sum())


def test_a_hub_is_extended_by_the_few_values_of_others():
    """All edges of a hub come at one time: the rule whose fixed proposer is the hub proposes their square."""
    hub, degree = 5, 300
    hubs = [((hub, other), 0, 1) for other in range(10, 10 + degree)]
    edges = source("e", {"src": integer(0, 999), "dst": integer(0, 999)}, ROWS)
    atoms = [Atom(edges, tuple(variables)) for variables in ("ab", "bc", "ac")]
    proposals = {}
    for variant in ("least", "fixed"):
        with closing(Dataflow(delta_query(atoms, variant=variant).count())) as worker:
            worker.feed({"e": arrays(edges.schema, hubs)})
            proposals[variant] = statistics.proposals(worker)
    assert proposals["least"] <= 2 * degree
    assert proposals["fixed"] >= degree * degree // 2  # half of them: what comes later is not proposed yet


def test_who_has_fewest_proposes_and_no_edge_is_there_twice_where_shards_have_indexes_by_key():
    hub, degree, shards = 5, 300, 3
    hubs = [((hub, other), 0, 1) for other in range(10, 10 + degree)]
    edges = source("e", {"src": integer(0, 999), "dst": integer(0, 999)}, ROWS)
    atoms = [Atom(edges, tuple(variables)) for variables in ("ab", "bc", "ac")]
    proposals = {}
    for variant in ("least", "fixed"):
        with closing(Chain(by_key(delta_query(atoms, variant=variant).count()), shards)) as chain:
            chain.feed({"e": arrays(edges.schema, hubs)})
            programs = [(stage, each._worker) for (stage, _), each in chain.live.items()]
            proposals[variant] = sum(statistics.proposals(program) for _, program in programs)
            first = [program.state_rows() for stage, program in programs if stage == 1]
            assert sum(first) <= 4 * degree
    assert proposals["least"] <= 2 * degree
    assert proposals["fixed"] >= degree * degree // 2


STEPS = {"triangle": 3, "4-clique": 9, "diamond": 8, "house": 19}


@pytest.mark.parametrize("name", STEPS)
def test_what_rules_have_in_common_is_found_once(name):
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


@few
@given(data=st.data())
def test_a_late_motif_says_what_it_would_have_said(data):
    case = drawn(data, "triangle")
    times = times_of(case.streams)
    cut = data.draw(st.integers(min(1, len(times)), len(times)))
    before, after = between(case.streams, set(times[:cut])), between(case.streams, set(times[cut:]))
    with closing(Dataflow({"there": motif("path")})) as together:
        fed(together, {"e": e.schema}, before)
        found = stream_of(
            case.collection, together.attach("late", case.collection, history={"e": [live(e.schema, before["e"])]})
        )
        together.retire("there")
        later = stream_of(case.collection, fed(together, {"e": e.schema}, after)["late"])
    whole = changes(motif("triangle", "binary").node, case.streams)
    assert later == {change: diff for change, diff in whole.items() if change[0] in times[cut:]}
    expected = Counter()
    for (time, row), diff in whole.items():
        expected[row] += diff * (time in times[:cut])
    assert {row: diff for (_, row), diff in found.items()} == {row: diff for row, diff in expected.items() if diff}


@each_motif
@pytest.mark.parametrize("variant", ["least", "fixed"])
@few
@given(data=st.data())
def test_what_is_only_counted_counts_as_if_it_were_listed(name, variant, data):
    case = drawn(data, name, variant)
    by = data.draw(st.lists(st.sampled_from(case.collection.schema.names), unique=True, max_size=2))
    expected = changes(motif(name, "binary").count(by).node, case.streams)
    assert maintained(case.collection.count(by), case.streams, data.draw(cuts(case.streams))) == expected


def test_a_house_is_counted_by_its_triangles_and_two_lists():
    """A triangle over whose side there are 30 roofs, and as many vertices that all three lead to."""
    graph = [((0, 1), 0, 1), ((0, 2), 0, 1), ((1, 2), 0, 1)]
    graph += [((at, 10 + each), 1, 1) for each in range(30) for at in (1, 2)]
    graph += [((at, 50 + each), 1, 1) for each in range(30) for at in (0, 1, 2)]
    edges = source("e", {"src": integer(0, 99), "dst": integer(0, 99)}, ROWS)
    house = delta_query([Atom(edges, tuple(each.split(":")[1])) for each in MOTIFS["house"][0].split()])
    rows, found = {}, {}
    for by in ((), ("d", "e")):
        with closing(Dataflow(house.count(by))) as worker:
            out = worker.feed({"e": arrays(edges.schema, graph)})
            rows[by], found[by] = statistics.extended_rows(worker), int((out.columns["count"] * out.diff).sum())
    assert found[()] == found["d", "e"] == 30 * 60
    assert rows[()] < 30 * 60 < rows["d", "e"]


def test_counts_are_kept_of_what_is_found():
    case = {"e": [((0, 1), 0, 2), ((1, 2), 0, 1), ((0, 2), 1, 3)]}
    found = at_once(motif("triangle").where(col.c > 1).count(by="a"), case)
    assert found == {(1, (0, 6)): 1}


texts = source("texts", {"a": TEXT, "b": TEXT}, ROWS)
FAULTS = {
    "no atoms": lambda: delta_query([]),
    "not a variable for each column": lambda: Atom(e, ("a",)),
    "a variable of different types.*b: ": lambda: delta_query([Atom(e, ("a", "b")), Atom(texts, ("b", "c"))]),
    "texts cannot be indexed": lambda: delta_query([Atom(texts, ("a", "b")), Atom(texts, ("b", "c"))]),
    "unknown variable": lambda: delta_query([Atom(e, ("a", "b"))], [col.a < col.x]),
}


@pytest.mark.parametrize("words", FAULTS)
def test_what_is_no_motif_is_an_error(words):
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
        assert 700 * 1400 + 700 in out.columns["count"].tolist()  # there and back, and back and there
        schedule = worker._worker._schedule.block
        assert ProgramBlock(schedule).as_words.slice_rows < 4096
