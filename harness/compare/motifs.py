"""The warm parent of motifs: it speaks as harness/measure/server.py does, and reads the cell and the limit of a
request.

    python -m harness.compare.motifs DIRECTORY      of a graph that was generated; it is oriented
    (harness/suites/graphs/graph_data.py)

A motif is counted by BiGJoin, and timed with the making of its indexes; while edges come and go, by delta queries.
"""

from __future__ import annotations

import gc
import sys
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from deltamark.harness.compare.sample import Seen, sampled
from deltamark.harness.measure.cell import MotifCell
from deltamark.harness.measure.server import Forking
from deltamark.harness.results.record import MEASURING
from deltamark.harness.suites.graphs.counting import by_hand, churn, left, timed, warm
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.suites.graphs.motif_runs import MotifCosts, bigjoin_of, counted, run
from deltamark.queries.graph.motifs import motif


class Motifs(Forking):
    def __init__(self, edges: Edges, watched: int | None = None) -> None:
        super().__init__(watched)
        self._edges = edges
        self._right: dict[MotifCell, int] = {}

    def warm(self) -> dict[str, Any]:
        warm()
        gc.freeze()  # collecting what is here would copy it, in every child
        return {"status": "ok", "measuring": MEASURING}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Count what is there at the end by hand, and keep that."""
        cell = MotifCell(**request["cell"])
        found = self._forked(request, lambda _: expected(cell, self._edges))
        if isinstance(found, dict):
            return found
        self._right[cell] = found
        return {"status": "ok"}

    def cell(self, request: dict[str, Any]) -> dict[str, Any]:
        """Count, and compare with what was counted by hand."""
        cell = MotifCell(**request["cell"])
        found = self._forked(request, lambda _: seen(cell, self._edges).shown)
        if isinstance(found, dict):
            return found
        if found[-1] != self._right[cell]:
            return {"status": "wrong", "problem": f"{found[-1]:,}, by hand {self._right[cell]:,}"}
        return {"status": "ok", "digest": " ".join(map(str, found))}

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        cell = MotifCell(**request["cell"])
        once = partial(seen, cell, self._edges)
        found: dict[str, Any] = self._forked(request, lambda stage: sampled(once, stage))
        return found


def expected(cell: MotifCell, edges: Edges) -> int:
    """Count by hand what is there at the end."""
    return by_hand(cell.motif, left(churn(edges, cell.batch)) if cell.batch else edges)()


def seen(cell: MotifCell, edges: Edges) -> Seen:
    """Run a cell once; it shows the counts after each batch."""
    return _changing(cell, edges) if cell.batch else _static(cell, edges)


def _static(cell: MotifCell, edges: Edges) -> Seen:
    with closing(bigjoin_of(motif(cell.motif), edges)) as found:
        indexed, _ = timed(lambda: found.load({"e": edges.batch()}))
        seconds, total = timed(found.count)
        return Seen((indexed, seconds), (total,), found.index_bytes())


def _changing(cell: MotifCell, edges: Edges) -> Seen:
    count = motif(cell.motif).dataflow({"e": edges.relation()}).count()
    measured = MotifCosts()
    changes = [counted(each) for each, _ in run(count, churn(edges, cell.batch), 1, measured)]
    return Seen(measured.took, tuple(accumulate(changes)), measured.state_bytes or 0)


if __name__ == "__main__":
    Motifs(oriented(stored(Path(sys.argv[1]))), sys.stdin.fileno()).serve()
