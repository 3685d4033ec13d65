"""Tables of the loads of virtual shards, and of the storage of Shares beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import TableEntry, count, ratio
from deltamark.harness.console.table import Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.graphs.skew import KINDS, SIZES
from deltamark.harness.tables.suites.rows import Show, least, number, rows, share

COSTS = ("index", "lookups", "messages")
"""The quantities that BiGJoin-S needs more of in total."""


def loads(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of the loads of shards."""
    lines = rows(
        measured, number("edges"), number("found"), *map(_largest, KINDS), share("busiest", "batch", ratio),
        number("rounds"), *map(_price, COSTS),
    )  # fmt: skip
    headers = ["graph", "edges", "found", *KINDS, "busiest step", "rounds", *(f"{kind} in all" for kind in COSTS)]
    notes = [
        "the largest load of a shard, and its ratio to the mean; in all: of all shards, relative to BiGJoin",
        "busiest step: the most messages to one shard between two barriers, relative to its proposals per round",
        "index: entries; lookups: counts, resolutions and validations; messages: sent by a shard or received",
    ]
    return Table("skew", "Loads of virtual shards", headers, lines, notes)


def _largest(kind: str) -> Show:
    def show(each: MeasuredRow) -> TableEntry:
        most, whole = each.least(f"{kind}_most"), each.least(f"{kind}_all")
        return TableEntry(f"{most:,.0f} ({most * each.least('shards') / max(whole, 1):.2f}x)", most)

    return show


def _price(kind: str) -> Show:
    return lambda each: ratio(each.least(f"{kind}_all") / max(each.least(f"{kind}_plain"), 1))


def shares(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of copies of an edge by Shares and by our algorithms."""
    held = (least(f"held_{each}", lambda times: TableEntry(f"{times:,.1f}", times)) for each in SIZES)
    lines = rows(
        measured, least("cover", lambda cover: TableEntry(f"{cover:g}", cover)), *held, number("indexes"),
        least("indexes", lambda indexes: count(3 * indexes)),
    )  # fmt: skip
    headers = ["motif", "rho*", *(f"Shares, {each} shards" for each in SIZES), "BiGJoin", "BiGJoin-S, at most"]
    notes = [
        "copies of each edge, for any graph; Shares by its formula: atoms * shards^(1 - 1/rho*)",
        "ours do not depend on the number of shards: one entry per index (BiGJoin), or up to three (BiGJoin-S)",
        "the paper says shards^(1/2) for triangles where it introduces Shares; its own formula gives shards^(1/3)",
    ]
    return Table("shares", "Copies of an edge on all shards together", headers, lines, notes)
