"""All tables, from records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from deltamark.harness.results.finding import Finding, latest, readable
from deltamark.harness.results.record import Record
from deltamark.harness.tables import against, others, ours, post
from deltamark.harness.tables.distributed import distributed
from deltamark.harness.tables.entry import Table
from deltamark.harness.tables.lookup import Lookup
from deltamark.harness.tables.suites.findings import Found, by_table, named
from deltamark.harness.tables.suites.graph import graph_tables
from deltamark.harness.tables.suites.loops import loop_tables
from deltamark.harness.tables.suites.sharing import shared_tables

SUITES: Mapping[str, Callable[[Found], list[Table]]] = {
    "graph": graph_tables, "loops": loop_tables, "shared": shared_tables,
}  # fmt: skip


def tables(records: Iterable[Record], sf: str) -> list[Table]:
    """Make the tables that have something in them."""
    known = Lookup(records, sf)
    made = [
        post.physical(known), post.product(known), *post.workers(known), post.variants(known), ours.small(known),
        ours.latency(known), ours.deletions(known), against.crossover(known), against.load(known), ours.state(known),
        others.others(known), distributed(known), *against.beside_published(known),
    ]  # fmt: skip
    return [table for table in made if table.rows]


def suite_tables(findings: Iterable[Finding], suite: str) -> list[Table]:
    """Make the tables of a suite, of each graph or scale factor its own."""
    last = [each for each in latest(findings) if each.suite == suite]
    made = []
    with readable(suite):
        for of in dict.fromkeys(each.of for each in last):
            found = by_table(each for each in last if each.of == of)
            made += [named(table, of) for table in SUITES[suite](found) if table.rows]
    return made
