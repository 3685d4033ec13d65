"""The tables of the terminal and of docs/results.md as HTML, sortable by the numbers of their entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from deltamark.harness.console.formatting import TableEntry
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.report.charts.marks import Keys, Markup, data, tag

BAD = ("WRONG", "failed")
PROSE, LONG_NAME = 48, 20
"""The characters of the longest entry, and of the longest name of a row on a phone, that has one line. A column with a
longer entry is prose, whose lines are folded.
"""


def folded(table: Table, keys: Callable[[Entries], Keys], *, unfolded: bool) -> Markup:
    """Make a table that its title unfolds. keys: the filter values of a row."""
    notes = [tag("li", note) for note in table.notes]
    return tag(
        "details", tag("summary", table.title), grid(table, [keys(row) for row in table.rows]),
        tag("ul", notes, class_="notes") if notes else "", id=f"table-{table.name}", open=unfolded,
    )  # fmt: skip


def grid(table: Table, keys: Sequence[Keys]) -> Markup:
    prose = {at for row in table.rows for at, entry in enumerate(row) if at and len(entry.text) > PROSE}
    names = [
        tag("th", tag("button", name, type="button"), scope="col", class_="prose" if at in prose else None)
        for at, name in enumerate(table.headers)
    ]
    rows = [tag("tr", _cells(row, prose), **data(row_keys)) for row, row_keys in zip(table.rows, keys, strict=True)]
    foot = tag("tfoot", tag("tr", _cells(table.foot, prose))) if table.foot else ""
    element = tag("table", tag("thead", tag("tr", names)), tag("tbody", rows), foot)
    return tag("div", element, class_="scroll", tabindex=0, role="region", aria_label=table.title)


def _cells(row: Entries, prose: Collection[int]) -> list[Markup]:
    first, *rest = row
    name = tag("th", first.text, scope="row", class_="long" if len(first.text) > LONG_NAME else None)
    return [name, *(_cell(entry, "prose" if at in prose else None) for at, entry in enumerate(rest, 1))]


def _cell(entry: TableEntry, name: str | None) -> Markup:
    """Make a cell. name: the class of the column."""
    value = None if math.isnan(entry.value) else repr(entry.value).replace("inf", "Infinity")
    return tag("td", entry.text, data_value=value, class_="bad" if entry.text in BAD else name)


def of_engines(engines: Iterable[str]) -> Callable[[Entries], Keys]:
    """Return a function from rows, which begin with the short name of an engine, to their filter values."""
    by_name = {short_name(engine): engine for engine in engines}
    return lambda row: {"engine": by_name[row[0].text]}


def named(row: Entries, engines: Collection[str]) -> Keys:
    """Return the filter values in a row's name: a query, and an engine if it is not ours."""
    query, _, rest = row[0].text.partition(" ")
    engine = next((each for each in engines if f" {rest}".endswith(f" {short_name(each)}")), DEFAULT)
    return {"query": query, "engine": engine}
