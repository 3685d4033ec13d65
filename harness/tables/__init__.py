"""All tables, from records alone."""

from __future__ import annotations

from collections.abc import Iterable

from harness.record import Record
from harness.tables import against, others, ours, post
from harness.tables.distributed import distributed
from harness.tables.entry import Table
from harness.tables.lookup import Lookup


def tables(records: Iterable[Record], sf: str) -> list[Table]:
    """Make the tables that have something in them."""
    known = Lookup(records, sf)
    made = [
        post.physical(known), post.product(known), *post.workers(known), post.variants(known), ours.small(known),
        ours.latency(known), ours.deletions(known), against.crossover(known), against.load(known), ours.state(known),
        others.others(known), distributed(known), *against.beside_published(known),
    ]  # fmt: skip
    return [table for table in made if table.rows]
