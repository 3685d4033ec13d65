"""The measurement server of motifs. It has the protocol of harness/measure/server.py, without rounds and batchings.

    python -m deltamark.harness.compare.motifs DIRECTORY      the directory of a generated graph, which is oriented here

A motif in a graph that does not change is counted by BiGJoin, including the time to build its indexes; while edges
change, it is counted by delta queries.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path

from deltamark.harness.benchmarks.cell import MotifCell
from deltamark.harness.measure.client import CellReply, CellRequest, OracleReply, OracleRequest, Request, WarmReply
from deltamark.harness.measure.runs import SampledRun
from deltamark.harness.measure.server import Server
from deltamark.harness.results.record import MEASURING
from deltamark.harness.suites.graphs.counting import MotifCosts, bigjoin_of, by_hand, churn, counted, left, run, warm
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.system.clock import timed
from deltamark.queries.graph.motifs import motif


class MotifServer(Server[MotifCell]):
    """Counts motifs in a graph."""

    request_type = Request[MotifCell]

    def __init__(self, edges: Edges, watched: int | None = None) -> None:
        super().__init__(watched)
        self._edges = edges
        self._expected: dict[MotifCell, int] = {}

    def warm(self, benchmark: str) -> WarmReply:
        del benchmark
        """Load the kernels."""
        warm()
        gc.freeze()  # a collection would touch, and so copy, the parent's objects in every child
        return WarmReply(measuring=MEASURING)

    def oracle_answers(self, request: OracleRequest[MotifCell]) -> OracleReply:
        """Count a motif in the final graph by the independent algorithm, and keep the count."""
        cell = request.cell
        self._expected[cell] = self._in_child(lambda _: expected_count(cell, self._edges), request.limit)
        return OracleReply()

    def cell(self, request: CellRequest[MotifCell]) -> CellReply:
        """Count a motif, and compare the final count with the expected one."""
        cell = request.cell
        counts = self._in_child(lambda _: run_once(cell, self._edges).output, request.limit)
        if counts[-1] != self._expected[cell]:
            return CellReply(status="wrong", problem=f"{counts[-1]:,}, by hand {self._expected[cell]:,}")
        return CellReply(digest=" ".join(map(str, counts)))

    def runner(self, cell: MotifCell) -> Callable[[], SampledRun]:
        return partial(run_once, cell, self._edges)


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
