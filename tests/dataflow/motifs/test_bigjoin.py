"""Laws of motifs over static relations: BiGJoin computes the join for any size of batches."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import islice, product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays
from support.random_plans.strategies import rows
from support.random_plans.streams import inputs_of
from support.reference.answers import answer
from support.written_plans.motifs import MOTIFS, RELATIONS, motif

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.motif import Atom
from deltamark.dataflow.motifs.static import StaticMotif
from deltamark.dataflow.types import integer

few = settings(max_examples=4)
each_motif = pytest.mark.parametrize("name", MOTIFS)


def static_of(name: str, workers: int = 1) -> StaticMotif:
    words, where = MOTIFS[name]
    smaller = [condition.node.columns() for condition in where]
    pairs = [word.split(":") for word in words.split()]
    atoms = [Atom(RELATIONS[relation], tuple(names)) for relation, names in pairs]
    return StaticMotif(atoms, smaller, workers=workers)


def batches_of(name: str, streams) -> dict[str, Batch]:
    return {each: arrays(schema, streams[each]) for each, schema in inputs_of(motif(name)).items()}


def counted_by_static(name: str, streams, batch: int) -> Counter:
    with closing(static_of(name)) as static:
        static.load(batches_of(name, streams))
        found = Counter()
        for part in static.rows(batch):
            for *row, weight in part.tolist():
                found[tuple(row)] += weight
        assert static.count(batch) == sum(found.values())
        shown = static.statistics
        assert all(most <= 2 * batch for most in shown.most)
        assert shown.rounds <= shown.proposals // batch + len(shown.most) ** 2
        assert multiplied_out(static, batch) == found
    return found


def multiplied_out(static: StaticMotif, batch: int) -> Counter:
    prefix, behind = static.factors
    order = [(*prefix, *behind).index(name) for name in static.variables]
    found = Counter()
    for part in static.factorized(batch):
        values = iter(map(tuple, part.values.tolist()))
        for (*row, weight), sizes in zip(part.prefixes.tolist(), part.sizes.tolist(), strict=True):
            for chosen in product(*(list(islice(values, size)) for size in sizes)):
                whole = [*row, *(value for value, _ in chosen)]
                found[tuple(whole[place] for place in order)] += weight * prod(times for _, times in chosen)
        assert next(values, None) is None
    return found


@pytest.mark.draws(19)
@each_motif
@pytest.mark.parametrize("batch", [1, 2, 7, 1000])
@few
@given(data=st.data())
def test_bigjoin_computes_the_join_of_whole_collections_for_every_batch(name, batch, data):
    streams = {
        each: [(row, 0, 1) for row in data.draw(st.lists(rows(schema), max_size=12))]
        for each, schema in inputs_of(motif(name)).items()
    }
    assert counted_by_static(name, streams, batch) == answer(motif(name, "binary").node, streams, 0)


@pytest.mark.draws(5)
@each_motif
@settings(max_examples=3)
@given(data=st.data(), workers=st.sampled_from([2, 3]))
def test_workers_find_the_rows_of_one_after_a_second_load(name, data, workers):
    loads = [
        {
            each: [(row, 0, 1) for row in data.draw(st.lists(rows(schema), max_size=12))]
            for each, schema in inputs_of(motif(name)).items()
        }
        for _ in range(2)
    ]
    with closing(static_of(name)) as alone, closing(static_of(name, workers)) as crew:
        for streams in loads:
            for static in (alone, crew):
                static.load(batches_of(name, streams))
            assert crew.count(3) == alone.count(3)
            assert crew.statistics.proposals == alone.statistics.proposals


def test_bigjoin_finds_the_triangles_of_the_paper():
    """The rows are those of the cyclic triangle in appendix A of the paper."""
    graph = [((1, 6), 0, 1), ((6, 7), 0, 1), ((7, 1), 0, 1)]
    edges = source("e", {"src": integer(0, 9), "dst": integer(0, 9)}, 99)
    with closing(StaticMotif([Atom(edges, tuple(names)) for names in ("ab", "bc", "ca")])) as static:
        static.load({"e": arrays(edges.schema, graph)})
        assert sorted(row for rows in static.rows() for row in rows.tolist()) == [
            [1, 6, 7, 1], [6, 7, 1, 1], [7, 1, 6, 1],
        ]  # fmt: skip


def test_memory_follows_the_batch_and_not_the_answer():
    rows = [((a, b), 0, 1) for a in range(60) for b in range(60)]
    edges = source("e", {"src": integer(0, 59), "dst": integer(0, 59)}, 9999)
    with closing(StaticMotif([Atom(edges, tuple(names)) for names in ("ab", "bc", "cd", "de")])) as static:
        static.load({"e": arrays(edges.schema, rows)})
        assert static.count(100) == static.count(10_000) == 60**5
        static.count(100)
        assert static.held_bytes() < 1 << 20


def test_independent_variables_are_listed_side_by_side():
    """A house over one triangle, with 50 roofs and 30 common successors, has 1,500 rows, or 80 numbers."""
    rows = [((0, 1), 0, 1), ((0, 2), 0, 1), ((1, 2), 0, 1)]
    rows += [((at, 10 + each), 0, 1) for each in range(50) for at in ((1, 2) if each < 20 else (0, 1, 2))]
    edges = source("e", {"src": integer(0, 99), "dst": integer(0, 99)}, 9999)
    with closing(
        StaticMotif([Atom(edges, tuple(each.split(":")[1])) for each in MOTIFS["house"][0].split()])
    ) as static:
        static.load({"e": arrays(edges.schema, rows)})
        assert static.factors == (("a", "b", "c"), ("d", "e"))
        (part,) = static.factorized()
        assert part.prefixes.tolist() == [[0, 1, 2, 1]]
        assert part.sizes.tolist() == [[30, 50]]
        assert part.values.tolist() == [[each, 1] for each in (*range(30, 60), *range(10, 60))]
        assert static.count() == 30 * 50
