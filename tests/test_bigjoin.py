"""Laws of motifs over relations that do not change: what is found is the join, whatever the size of batches."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from motifs import MOTIFS, RELATIONS, motif
from plans import inputs_of, rows
from reference import answer
from test_laws import arrays

from dataflow.bigjoin import Static
from dataflow.collection import source
from dataflow.motif import Atom
from dataflow.types import integer

few = settings(max_examples=8)
each_motif = pytest.mark.parametrize("name", MOTIFS)


def counted_by_static(name: str, streams, batch: int) -> Counter:
    words, where = MOTIFS[name]
    smaller = [tuple(each.args[0] for each in condition.args) for condition in where]
    pairs = [word.split(":") for word in words.split()]
    static = Static([Atom(RELATIONS[relation], tuple(names)) for relation, names in pairs], smaller)
    with closing(static):
        static.load({each: arrays(schema, streams[each]) for each, schema in inputs_of(motif(name)).items()})
        found = Counter()
        for part in static.rows(batch):
            for *row, weight in part.tolist():
                found[tuple(row)] += weight
        assert static.count(batch) == sum(found.values())
        shown = static.shown
        assert all(most <= 2 * batch for most in shown.most)
        assert shown.rounds <= shown.proposals // batch + len(shown.most) ** 2
    return found


@each_motif
@pytest.mark.parametrize("batch", [1, 2, 7, 1000])
@few
@given(data=st.data())
def test_bigjoin_finds_the_join_of_whole_collections_for_every_batch(name, batch, data):
    streams = {
        each: [(row, 0, 1) for row in data.draw(st.lists(rows(schema), max_size=12))]
        for each, schema in inputs_of(motif(name)).items()
    }
    assert counted_by_static(name, streams, batch) == answer(motif(name, "binary").node, streams, 0)


def test_the_paper_s_example():
    """Appendix A of the paper: P1, P2 and P3 of the cyclic triangle."""
    graph = [((1, 6), 0, 1), ((6, 7), 0, 1), ((7, 1), 0, 1)]
    edges = source("e", {"src": integer(0, 9), "dst": integer(0, 9)}, 99)
    with closing(Static([Atom(edges, tuple(names)) for names in ("ab", "bc", "ca")])) as static:
        static.load({"e": arrays(edges.schema, graph)})
        assert sorted(row for rows in static.rows() for row in rows.tolist()) == [
            [1, 6, 7, 1], [6, 7, 1, 1], [7, 1, 6, 1],
        ]  # fmt: skip


def test_memory_follows_the_batch_and_not_what_is_found():
    rows = [((a, b), 0, 1) for a in range(60) for b in range(60)]
    edges = source("e", {"src": integer(0, 59), "dst": integer(0, 59)}, 9999)
    with closing(Static([Atom(edges, tuple(names)) for names in ("ab", "bc", "cd", "de")])) as static:
        static.load({"e": arrays(edges.schema, rows)})
        assert static.count(100) == static.count(10_000) == 60**5
        static.count(100)
        assert static.shown.held_bytes < 1 << 20
