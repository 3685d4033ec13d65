"""The tables of the terminal and of docs/results.md as HTML, sortable by the numbers of their entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from deltamark.harness.console.formatting import TableEntry
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.report.charts.marks import Keys, data
from deltamark.harness.report.charts.markup import Attribute, Markup, tag

BAD = ("WRONG", "failed")


def folded(table: Table, keys: Callable[[Entries], Keys], *, unfolded: bool) -> Markup:
    """Make a table that its title unfolds. keys: the filter values of a row."""
    notes = [tag("li", note) for note in table.notes]
    return tag(
        "details", tag("summary", table.title), grid(table, [keys(row) for row in table.rows]),
        tag("ul", notes, class_="notes") if notes else "", id=f"table-{table.name}", open=unfolded,
    )  # fmt: skip


def grid(table: Table, keys: Sequence[Keys]) -> Markup:
    head = tag("tr", [tag("th", tag("button", name, type="button"), scope="col") for name in table.headers])
    rows = [tag("tr", _cells(row), **data(row_keys)) for row, row_keys in zip(table.rows, keys, strict=True)]
    foot = tag("tfoot", tag("tr", _cells(table.foot))) if table.foot else ""
    element = tag("table", tag("thead", head), tag("tbody", rows), foot)
    return tag("div", element, class_="scroll", tabindex=0, role="region", aria_label=table.title)


def _cells(row: Entries) -> list[Markup]:
    first, *rest = row
    return [tag("th", first.text, scope="row"), *(tag("td", entry.text, **_attributes(entry)) for entry in rest)]


def _attributes(entry: TableEntry) -> dict[str, Attribute]:
    value = None if math.isnan(entry.value) else repr(entry.value).replace("inf", "Infinity")
    return {"data_value": value, "class_": "bad" if entry.text in BAD else None}


def named(row: Entries, engines: Collection[str]) -> Keys:
    """Return the filter values in a row's name: a query, and an engine if it is not ours."""
    query, _, rest = row[0].text.partition(" ")
    return {"query": query, "engine": rest if rest in engines else DEFAULT}
