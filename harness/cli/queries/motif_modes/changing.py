"""Motifs maintained while edges are inserted and deleted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.harness.cli.queries.motif_modes.request import MotifRequest, is_right
from deltamark.harness.console.console import say, warn, write_csv
from deltamark.harness.suites.graphs.counting import MotifCosts, counted, relations_of
from deltamark.harness.suites.graphs.counting import run as run_embedded
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, EdgeStream

DEFAULT_BATCH = 10_000
"""Changes of edges per batch; not measured."""

AnswerChanges = Iterator[tuple[Batch, int]]
"""The changes of an answer after each batch, and the number of edge changes fed so far."""

RunPlan = Callable[[Collection, MotifCosts], AnswerChanges]
"""Runs a plan to the end of the stream, and adds up its costs."""


def run(request: MotifRequest) -> int:
    """Maintain a motif with the embedded engine; return the exit code."""
    args = request.args
    stream = WORKLOADS[args.workload](request.edges, args.batch or DEFAULT_BATCH)
    plan = request.rewritten.dataflow(relations_of(request.edges), args.variant)
    return maintain(request, plan, stream, lambda plan, costs: run_embedded(plan, stream, args.workers, costs))


def maintain(request: MotifRequest, plan: Collection, stream: EdgeStream, run_plan: RunPlan) -> int:
    """Count or list the matches of a plan while edges change; return the exit code."""
    costs = MotifCosts()
    if request.args.show == "count":
        is_correct = _count(request, stream, run_plan(plan.count(), costs))
    else:
        is_correct = _list_rows(plan, run_plan(plan, costs))
    if is_correct:
        _report_costs(request.args, stream, costs)
    return 0 if is_correct else 2


def _count(request: MotifRequest, stream: EdgeStream, changes: AnswerChanges) -> bool:
    """Print the last count; return whether all checked counts are right."""
    batches, total = len(stream.starts), 0
    checks = min(request.args.check, batches)
    checked = {int(number) for number in np.linspace(batches, 1, checks).round()} if checks else set()
    preloaded = int(stream.starts[0] > 0)
    for number, (change, fed) in enumerate(changes, 1 - preloaded):
        total += counted(change)
        if number in checked and not is_right(request.pattern, stream, fed, total):
            return False
    note = f" (verified with DuckDB after {len(checked)} of {batches} batches)" if checked else ""
    say(f"{total:,}{note}")
    return True


def _list_rows(plan: Collection, changes: AnswerChanges) -> bool:
    """Print the rows at the end of the stream, with their multiplicities."""
    names = plan.schema.names
    parts = [np.column_stack([change.diff, *(change.columns[name] for name in names)]) for change, _ in changes]
    updates = np.concatenate(parts)
    rows, places = np.unique(updates[:, 1:], axis=0, return_inverse=True)
    weights = np.bincount(places.ravel(), updates[:, 0], len(rows)).astype(np.int64)
    live = np.flatnonzero(weights)
    write_csv([*names, "times"], np.column_stack([rows, weights])[live].tolist())
    return True


def _report_costs(args: Namespace, stream: EdgeStream, costs: MotifCosts) -> None:
    rate = costs.updates / max(costs.seconds, 1e-9)
    parts = [f"{costs.updates:,} changes of edges in {costs.seconds:.3f} s, {rate:,.0f}/s"]
    if costs.proposals is not None:
        parts.append(f"{costs.proposals:,} proposals")
    if costs.state_bytes is not None and args.variant != "binary":
        row_bytes = costs.state_bytes / max(costs.rows, 1)
        parts.append(f"{costs.state_bytes / 1e6:,.1f} MB of state, {row_bytes:.1f} bytes per row of an index")
    warn(f"{stream.edges.name}, {len(stream.edges):,} edges: {'; '.join(parts)}")
