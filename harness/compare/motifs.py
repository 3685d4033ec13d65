"""The measurement server of motifs. It takes the same requests as harness/measure/server.py, and reads their cells and
limits.

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

from deltamark.harness.compare.sample import Seen, sampled
from deltamark.harness.measure import messages
from deltamark.harness.measure.cell import MotifCell
from deltamark.harness.measure.server import Server, guarded
from deltamark.harness.results.record import MEASURING
from deltamark.harness.suites.graphs.counting import by_hand, churn, left, timed, warm
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.suites.graphs.motif_runs import Measured, bigjoin_of, counted, run
from deltamark.queries.graph.motifs import motif


class MotifServer(Server[MotifCell]):
    """Counts motifs in a graph."""

    cell_type = MotifCell

    def __init__(self, edges: Edges, watched: int | None = None) -> None:
        super().__init__(watched)
        self._edges = edges
        self._expected: dict[MotifCell, int] = {}

    def warm(self) -> messages.WarmReply:
        warm()
        gc.freeze()  # a collection would copy these pages in every child
        return messages.WarmReply(measuring=MEASURING)

    def ask(self, request: messages.AskRequest[MotifCell]) -> messages.AskReply:
        """Count the motif at the end of the stream by hand, and keep the count."""

        def count() -> messages.AskReply:
            cell = request.cell
            self._expected[cell] = self._in_child(lambda _: expected(cell, self._edges), request.limit)
            return messages.AskReply()

        return guarded(count, messages.AskReply)

    def cell(self, request: messages.CellRequest[MotifCell]) -> messages.CellReply:
        """Count the motif, and compare the last count with the one by hand."""

        def count() -> messages.CellReply:
            cell = request.cell
            counts = self._in_child(lambda _: seen(cell, self._edges).shown, request.limit)
            if counts[-1] != self._expected[cell]:
                return messages.CellReply(status="wrong", problem=f"{counts[-1]:,}, by hand {self._expected[cell]:,}")
            return messages.CellReply(digest=" ".join(map(str, counts)))

        return guarded(count, messages.CellReply)

    def sample(self, request: messages.SampleRequest[MotifCell]) -> messages.SampleReply:
        once = partial(seen, request.cell, self._edges)
        return guarded(
            lambda: self._in_child(lambda stages: sampled(once, stages.begin), request.limit), messages.SampleReply
        )


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
    measured = Measured()
    changes = [counted(each) for each, _ in run(count, churn(edges, cell.batch), 1, measured)]
    return Seen(measured.took, tuple(accumulate(changes)), measured.state_bytes or 0)


if __name__ == "__main__":
    MotifServer(oriented(stored(Path(sys.argv[1]))), sys.stdin.fileno()).serve()
