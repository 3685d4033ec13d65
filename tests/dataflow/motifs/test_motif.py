"""Laws of motifs: delta queries change as the joins of whole collections, as bags, at every time."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.chain import Pieces
from support.engines.driving import added, arrays, at_once, between, feed, maintained, stream_of
from support.engines.late import fed, live
from support.engines.laws import check_life
from support.random_plans.case import Case
from support.random_plans.strategies import cuts, streams_of
from support.random_plans.streams import times_of
from support.reference.answers import changes
from support.written_plans.motifs import MOTIFS, ROWS, e, motif

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.language.motif import Atom, delta_query
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.dataflow.types import integer

pytestmark = pytest.mark.usefixtures("small_slices")
few = settings(max_examples=3)
each_motif = pytest.mark.parametrize("name", MOTIFS)


def drawn(data, name: str, variant="least") -> Case:
    found = motif(name, variant)
    return Case(found, data.draw(streams_of(found)))


@pytest.mark.draws(14)
@each_motif
@pytest.mark.parametrize("variant", ["least", "fixed"])
@settings(max_examples=5)
@given(data=st.data())
def test_a_delta_query_is_the_join_of_whole_collections_and_keeps_no_deleted_row(name, variant, data):
    check_life(drawn(data, name, variant), data, motif(name, "binary"))


@pytest.mark.draws(7)
@each_motif
@settings(max_examples=3)
@given(data=st.data(), workers=st.sampled_from([2, 3]))
def test_any_number_of_workers_makes_the_changes_of_one(name, data, workers):
    case = drawn(data, name)
    feeds = data.draw(cuts(case.streams))
    with closing(Dataflow(case.collection, workers=workers)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


@pytest.mark.draws(7)
@each_motif
@settings(max_examples=3)
@given(data=st.data(), shards=st.sampled_from([1, 3]))
def test_a_motif_that_is_cut_into_stages_makes_the_changes_of_the_whole(name, data, shards):
    case = drawn(data, name)
    feeds = data.draw(cuts(case.streams))
    with closing(Pieces(case.collection, shards)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


@pytest.mark.draws(7)
@each_motif
@settings(max_examples=2)
@given(data=st.data())
def test_shards_that_have_indexes_by_key_make_the_changes_of_the_whole(name, data):
    case = drawn(data, name, data.draw(st.sampled_from(["least", "fixed"])))
    feeds = data.draw(cuts(case.streams))
    with closing(Pieces(by_key(case.collection), 2)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


@pytest.mark.parametrize("name", ["triangle", "4-clique", "with-nodes", "loop", "path"])
@settings(max_examples=3)
@given(data=st.data())
def test_workers_that_have_indexes_by_key_make_the_changes_of_one(name, data):
    case = drawn(data, name)
    feeds = data.draw(cuts(case.streams))
    with closing(Dataflow(by_key(case.collection), workers=2)) as engine:
        found = added(feed(engine, case.collection, between(case.streams, set(times))) for times in feeds)
    assert found == at_once(case.collection, case.streams)


def graph(seed: int, nodes: int, batches: int, size: int) -> list[Batch]:
    """Return batches of two times that insert edges, some of them twice, and delete others."""
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


@few
@given(data=st.data())
def test_a_late_motif_has_its_changes_from_the_beginning(data):
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


@pytest.mark.draws(14)
@each_motif
@pytest.mark.parametrize("variant", ["least", "fixed"])
@few
@given(data=st.data())
def test_the_count_of_a_motif_is_the_number_of_its_rows(name, variant, data):
    case = drawn(data, name, variant)
    by = data.draw(st.lists(st.sampled_from(case.collection.schema.names), unique=True, max_size=2))
    expected = changes(motif(name, "binary").count(by).node, case.streams)
    assert maintained(case.collection.count(by), case.streams, data.draw(cuts(case.streams))) == expected


def test_a_filter_applies_before_the_count():
    case = {"e": [((0, 1), 0, 2), ((1, 2), 0, 1), ((0, 2), 1, 3)]}
    found = at_once(motif("triangle").where(col.c > 1).count(by="a"), case)
    assert found == {(1, (0, 6)): 1}
