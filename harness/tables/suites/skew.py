"""Tables of the loads of virtual shards, and of the storage of Shares beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import TableEntry, count, ratio
from deltamark.harness.console.table import Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.graphs.skew import KINDS, SIZES
from deltamark.harness.tables.suites.rows import FigureColumns, ShowFigure, least, number, rows, share

COSTS = ("index", "lookups", "messages")
"""The quantities that BiGJoin-S needs more of in total."""


def loads(measured: Sequence[MeasuredRow]) -> Table:
    columns: FigureColumns = {
        "edges": number("edges"), "found": number("found"), **{kind: _largest(kind) for kind in KINDS},
        "busiest step": share("busiest", "batch", ratio), "rounds": number("rounds"),
        **{f"{kind}, total": _price(kind) for kind in COSTS},
    }  # fmt: skip
    notes = [
        "the largest load of a shard, and its ratio to the mean; total: of all shards, relative to BiGJoin",
        "busiest step: the most messages to one shard between two barriers, relative to its proposals per round",
        "index: entries; lookups: counts, resolutions and validations; messages: sent by a shard or received",
    ]
    return Table("skew", "Loads of virtual shards", ["graph", *columns], rows(measured, columns), notes)


def _largest(kind: str) -> ShowFigure:
    def show(row: MeasuredRow) -> TableEntry:
        most, whole = row.least(f"{kind}_most"), row.least(f"{kind}_all")
        return TableEntry(f"{most:,.0f} ({most * row.least('shards') / max(whole, 1):.2f}x)", most)

    return show


def _price(kind: str) -> ShowFigure:
    return lambda row: ratio(row.least(f"{kind}_all") / max(row.least(f"{kind}_plain"), 1))


def shares(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of copies of an edge by Shares and by our algorithms."""
    columns: FigureColumns = {
        "rho*": least("cover", lambda cover: TableEntry(f"{cover:g}", cover)),
        **{f"Shares, {shards} shards": least(f"held_{shards}", _copies) for shards in SIZES},
        "BiGJoin": number("indexes"), "BiGJoin-S, at most": least("indexes", lambda indexes: count(3 * indexes)),
    }  # fmt: skip
    notes = [
        "copies of each edge, for any graph; Shares by its formula: atoms * shards^(1 - 1/rho*)",
        "ours do not depend on the number of shards: one entry per index (BiGJoin), or up to three (BiGJoin-S)",
        "the paper says shards^(1/2) for triangles where it introduces Shares; its own formula gives shards^(1/3)",
    ]
    title = "Copies of an edge on all shards together"
    return Table("shares", title, ["motif", *columns], rows(measured, columns), notes)


def _copies(value: float) -> TableEntry:
    return TableEntry(f"{value:,.1f}", value)
