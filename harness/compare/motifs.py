"""The measurement server of motifs. It has the protocol of harness/measure/server.py, without rounds and batchings.

    python -m deltamark.harness.compare.motifs DIRECTORY      the directory of a generated graph, which is oriented here

A motif in a graph that does not change is counted by BiGJoin, including the time to build its indexes; while edges
change, it is counted by delta queries.
"""

from __future__ import annotations

import gc
import sys
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path

from deltamark.harness.compare.sample import SampledRun, sample
from deltamark.harness.measure import messages
from deltamark.harness.measure.cell import MotifCell
from deltamark.harness.measure.server import Server, guarded
from deltamark.harness.results.record import MEASURING
from deltamark.harness.suites.graphs.counting import by_hand, churn, left, timed, warm
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.suites.graphs.motif_runs import MotifCosts, bigjoin_of, counted, run
from deltamark.queries.graph.motifs import motif


class MotifServer(Server[MotifCell]):
    """Counts motifs in a graph."""

    cell_type = MotifCell

    def __init__(self, edges: Edges, watched: int | None = None) -> None:
        super().__init__(watched)
        self._edges = edges
        self._expected: dict[MotifCell, int] = {}

    def warm(self) -> messages.WarmReply:
        """Load the kernels."""
        warm()
        gc.freeze()  # a collection would touch, and so copy, the parent's objects in every child
        return messages.WarmReply(measuring=MEASURING)

    def ask(self, request: messages.AskRequest[MotifCell]) -> messages.AskReply:
        """Count a motif in the final graph by the independent algorithm, and keep the count."""

        def count() -> messages.AskReply:
            cell = request.cell
            self._expected[cell] = self._in_child(lambda _: expected_count(cell, self._edges), request.limit)
            return messages.AskReply()

        return guarded(count, messages.AskReply)

    def cell(self, request: messages.CellRequest[MotifCell]) -> messages.CellReply:
        """Count a motif, and compare the final count with the expected one."""

        def count() -> messages.CellReply:
            cell = request.cell
            counts = self._in_child(lambda _: run_once(cell, self._edges).output, request.limit)
            if counts[-1] != self._expected[cell]:
                return messages.CellReply(status="wrong", problem=f"{counts[-1]:,}, by hand {self._expected[cell]:,}")
            return messages.CellReply(digest=" ".join(map(str, counts)))

        return guarded(count, messages.CellReply)

    def sample(self, request: messages.SampleRequest[MotifCell]) -> messages.SampleReply:
        """Time a cell, and compare nothing."""
        once = partial(run_once, request.cell, self._edges)
        return guarded(
            lambda: self._in_child(lambda stages: sample(once, stages.begin), request.limit), messages.SampleReply
        )


def expected_count(cell: MotifCell, edges: Edges) -> int:
    """Count a motif in the graph after the last batch, by the independent algorithm."""
    return by_hand(cell.motif, left(churn(edges, cell.batch)) if cell.batch else edges)()


def run_once(cell: MotifCell, edges: Edges) -> SampledRun:
    """Run a cell once; the output is the count after each batch."""
    return _run_changing(cell, edges) if cell.batch else _run_static(cell, edges)


def _run_static(cell: MotifCell, edges: Edges) -> SampledRun:
    with closing(bigjoin_of(motif(cell.motif), edges)) as join:
        index_seconds, _ = timed(lambda: join.load({"e": edges.batch()}))
        count_seconds, total = timed(join.count)
        return SampledRun((index_seconds, count_seconds), (total,), join.index_bytes())


def _run_changing(cell: MotifCell, edges: Edges) -> SampledRun:
    count = motif(cell.motif).dataflow({"e": edges.relation()}).count()
    measured = MotifCosts()
    changes = [counted(delta) for delta, _ in run(count, churn(edges, cell.batch), 1, measured)]
    return SampledRun(measured.took, tuple(accumulate(changes)), measured.state_bytes or 0)


if __name__ == "__main__":
    MotifServer(oriented(stored(Path(sys.argv[1]))), sys.stdin.fileno()).serve()
