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
from dataflow.motif import Atom

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
        assert all(most <= 2 * batch for most in static.shown.most)
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
