"""A closed motif and its iterators say so, whatever is called, and reach no memory; an open one is not copied."""

from __future__ import annotations

import copy
import pickle
from contextlib import closing

import pytest
from support.engines.driving import arrays

from deltamark import Atom, DeltamarkError, StaticMotif, integer, source

CLOSED = "^the motif is closed: its memory was released; open another one$"

USES = {
    "inputs": lambda motif: motif.inputs,
    "load": lambda motif: motif.load({}),
    "load_parts": lambda motif: motif.load_parts([]),
    "index_bytes": lambda motif: motif.index_bytes(),
    "index_rows": lambda motif: motif.index_rows(),
    "statistics": lambda motif: motif.statistics,
    "held_bytes": lambda motif: motif.held_bytes(),
    "count": lambda motif: motif.count(),
    "count_share": lambda motif: motif.count_share(0, 1),
    "rows": lambda motif: next(motif.rows()),
    "factors": lambda motif: motif.factors,
    "factorized": lambda motif: next(motif.factorized()),
}

edges = source("e", {"src": integer(0, 9), "dst": integer(0, 9)}, 99)
MORE = {"e": arrays(edges.schema, [((5, 5), 0, 1)])}


def paths(workers=1):
    """Return the motif of paths of three edges over a complete graph of three vertices, which has 81."""
    motif = StaticMotif([Atom(edges, tuple(names)) for names in ("ab", "bc", "cd")], workers=workers)
    motif.load({"e": arrays(edges.schema, [((src, dst), 0, 1) for src in range(3) for dst in range(3)])})
    return motif


@pytest.mark.parametrize("workers", [1, 2])
def test_a_closed_motif_and_its_iterators_say_so(workers):
    assert {name for name in dir(StaticMotif) if not name.startswith("_")} == {*USES, "close"}
    motif = paths(workers)
    assert motif.count() == 81
    begun = motif.rows(1)
    next(begun)
    motif.close()
    motif.close()
    for use in (*USES.values(), lambda _: next(begun)):
        with pytest.raises(DeltamarkError, match=CLOSED):
            use(motif)


@pytest.mark.parametrize("listed", ["rows", "factorized"])
@pytest.mark.parametrize("later", ["load", "count", "rows"])
def test_a_later_call_ends_the_iteration_over_a_motif(listed, later):
    with closing(paths()) as motif:
        begun = getattr(motif, listed)(1)
        next(begun)
        {"load": lambda: motif.load(MORE), "count": motif.count, "rows": lambda: list(motif.rows())}[later]()
        with pytest.raises(DeltamarkError, match="the iteration was ended: a later call has loaded rows, or begun a"):
            next(begun)
        assert motif.count() == sum(int(part[:, -1].sum()) for part in motif.rows(1)) == 81 + (later == "load")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_motif_is_neither_copied_nor_pickled(duplicate):
    with closing(paths()) as motif:
        with pytest.raises(
            DeltamarkError, match=r"^neither copied nor pickled: a StaticMotif; make another one instead$"
        ):
            duplicate(motif)
        assert motif.count() == 81
