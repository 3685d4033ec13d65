"""Tables, made from records alone."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.harness.console.table import Table
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables import against, others, ours, post
from deltamark.harness.tables.distributed import distributed
from deltamark.harness.tables.lookup import Lookup


def tables(records: Iterable[QueryRecord], sf: str) -> list[Table]:
    """Make the non-empty tables of TPC-H at a scale factor."""
    known = Lookup(records, sf)
    candidates = [
        post.physical(known), post.product(known), *post.workers(known), post.variants(known), ours.small(known),
        ours.latency(known), ours.deletions(known), against.crossover(known), against.load(known), ours.state(known),
        others.others(known), distributed(known), *against.beside_published(known),
    ]  # fmt: skip
    return [table for table in candidates if table.rows]
