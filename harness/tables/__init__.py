"""Tables, made from records alone."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.harness.console.table import Table
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables import against, others, ours, post
from deltamark.harness.tables.beside_published import beside_published
from deltamark.harness.tables.distributed import distributed
from deltamark.harness.tables.engines import side_by_side
from deltamark.harness.tables.from_sql import from_sql
from deltamark.harness.tables.lookup import Lookup
from deltamark.harness.tables.marks import with_reasons
from deltamark.harness.tables.streams import workloads


def tables(records: Iterable[QueryRecord], sf: str) -> list[Table]:
    """Make the non-empty tables of TPC-H at a scale factor."""
    lookup = Lookup(records, sf)
    candidates = [
        *side_by_side(lookup), post.physical(lookup), post.product(lookup), *post.workers(lookup),
        post.variants(lookup), from_sql(lookup), ours.small(lookup), ours.latency(lookup), *workloads(lookup),
        against.crossover(lookup), against.load(lookup),
        ours.state(lookup), others.others(lookup), distributed(lookup), *beside_published(lookup),
    ]  # fmt: skip
    return [with_reasons(table, lookup.records) for table in candidates if table.rows]
