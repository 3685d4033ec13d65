"""Tables of the loads of virtual shards, and of what Shares would hold beside them."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import Entry, count, ratio
from deltamark.harness.console.table import Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.graphs.skew import KINDS, SIZES
from deltamark.harness.tables.suites.rows import Show, least, number, rows, share

DEAR = ("index", "lookups", "messages")
"""Of what BiGJoin-S needs more in all."""


def loads(found: Sequence[MeasuredRow]) -> Table:
    """Make the table of what shards have had to do."""
    made = rows(
        found, number("edges"), number("found"), *map(_largest, KINDS), share("busiest", "batch", ratio),
        number("rounds"), *map(_price, DEAR),
    )  # fmt: skip
    headers = ["graph", "edges", "found", *KINDS, "busiest step", "rounds", *(f"{kind} in all" for kind in DEAR)]
    notes = [
        "the largest load of a shard, and how many times the mean that is; in all: of all shards, over BiGJoin's",
        "busiest step: the most that came to one shard between two waits, over the proposals that it may make a round",
        "index: entries; lookups: counts, resolutions and validations; messages: what left a shard or came to it",
    ]
    return Table("skew", "Loads of virtual shards", headers, made, notes)


def _largest(kind: str) -> Show:
    def show(each: MeasuredRow) -> Entry:
        most, whole = each.least(f"{kind}_most"), each.least(f"{kind}_all")
        return Entry(f"{most:,.0f} ({most * each.least('shards') / max(whole, 1):.2f}x)", most)

    return show


def _price(kind: str) -> Show:
    return lambda each: ratio(each.least(f"{kind}_all") / max(each.least(f"{kind}_plain"), 1))


def shares(found: Sequence[MeasuredRow]) -> Table:
    """Make the table of what Shares and ours hold."""
    held = (least(f"held_{each}", lambda times: Entry(f"{times:,.1f}", times)) for each in SIZES)
    made = rows(
        found, least("cover", lambda cover: Entry(f"{cover:g}", cover)), *held, number("indexes"),
        least("indexes", lambda indexes: count(3 * indexes)),
    )  # fmt: skip
    headers = ["motif", "rho*", *(f"Shares, {each} shards" for each in SIZES), "BiGJoin", "BiGJoin-S, at most"]
    notes = [
        "how often each edge is held, whatever the graph; Shares by its formula: atoms * shards^(1 - 1/rho*)",
        "ours are the same on any number of shards: an entry in each index (BiGJoin), or up to three (BiGJoin-S)",
        "the paper says shards^(1/2) of triangles where it introduces Shares; its own formula gives shards^(1/3)",
    ]
    return Table("shares", "Copies of an edge that all shards hold together", headers, made, notes)
