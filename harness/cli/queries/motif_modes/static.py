"""Motifs in a static graph, found by BiGJoin over indexes of all edges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice

from deltamark.dataflow.motifs.static import BATCH_PROPOSALS, StaticMotif
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.queries.motif_modes.request import MotifRequest, report_static_count
from deltamark.harness.console.console import warn, write_csv
from deltamark.harness.measure.timing import timed
from deltamark.harness.suites.graphs.counting import indexed


def run(request: MotifRequest) -> int:
    """Count or list a motif; return the exit code."""
    args = request.args
    if args.workers > 1 and args.show != "count":
        remedy = "leave --workers out, or only count"
        raise DeltamarkError("several workers only count in a static graph", f"--show {args.show}", remedy)
    batch = args.batch or BATCH_PROPOSALS
    indexing, motif = timed(lambda: indexed(request.rewritten, request.edges, args.workers))
    with closing(motif) as matches:
        finding, code = timed(lambda: _show(request, matches, batch))
        if code == 0:
            _report_costs(request, matches, batch, indexing, finding)
    return code


def _show(request: MotifRequest, matches: StaticMotif, batch: int) -> int:
    match request.args.show:
        case "rows":
            rows = chain.from_iterable(part.tolist() for part in matches.rows(batch))
            write_csv([*matches.variables, "times"], rows)
        case "lists":
            prefix, independent = matches.factors
            write_csv([*prefix, "times", *independent], _lists(matches, batch))
        case _:
            return report_static_count(request, matches.count(batch))
    return 0


def _lists(matches: StaticMotif, batch: int) -> Iterator[list[object]]:
    """Yield a line per prefix with the values of each further variable; `7*2` is the value 7 with multiplicity 2."""
    for part in matches.factorized(batch):
        values = iter([str(value) if times == 1 else f"{value}*{times}" for value, times in part.values.tolist()])
        for row, sizes in zip(part.prefixes.tolist(), part.sizes.tolist(), strict=True):
            yield [*row, *(" ".join(islice(values, size)) for size in sizes)]


def _report_costs(request: MotifRequest, matches: StaticMotif, batch: int, indexing: float, finding: float) -> None:
    edges, costs = request.edges, matches.statistics
    most = ", ".join(f"{prefixes:,}" for prefixes in costs.most) or "none"
    warn(
        f"{edges.name}, {len(edges):,} edges: indexed in {indexing:.3f} s, found in {finding:.3f} s; "
        f"{costs.proposals:,} proposals in {costs.rounds:,} rounds of {batch:,}; most prefixes per step: {most}"
    )
