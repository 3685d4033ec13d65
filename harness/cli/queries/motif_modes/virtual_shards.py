"""Counts of motifs on virtual shards, with the loads of the shards by BiGJoin and by BiGJoin-S."""

from __future__ import annotations

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.queries.motif_modes.request import MotifRequest, is_static_count_right
from deltamark.harness.console.console import say, warn
from deltamark.harness.console.table import text
from deltamark.harness.results.record import Record
from deltamark.harness.suites.graphs.virtual_shards import BATCH, loads
from deltamark.harness.suites.registry import GraphSuite
from deltamark.harness.suites.table_cell import WrongAnswerError


def run(request: MotifRequest) -> int:
    """Print the loads; return the exit code."""
    args = request.args
    if not args.static or args.show != "count":
        remedy = "add --static, and list rows without shards"
        raise DeltamarkError("virtual shards only count in static graphs", f"--shards {args.shards}", remedy)
    batch = args.batch or BATCH
    try:
        rows = list(loads(request.edges, args.motif, request.pattern, shards=args.shards, batch=batch))
    except WrongAnswerError as error:
        warn(f"WRONG: {error}")
        return 2
    params = {"dataset": f"{args.motif}, {args.shards} shards", "table": "skew"}
    records = [Record(suite=GraphSuite.NAME, params={**params, "row": row.name}, figures=row.figures) for row in rows]
    (table,) = GraphSuite.tables(records)
    say(text(table))
    return 0 if is_static_count_right(request, int(records[0].least("found"))) else 2
