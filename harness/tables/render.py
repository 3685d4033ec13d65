"""Tables as text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from tabulate import tabulate

from deltamark.harness.tables.entry import Table


def text(table: Table) -> str:
    return f"{table.title}\n\n{_grid(table, 'simple')}\n\n" + "".join(f"  {note}\n" for note in table.notes)


def markdown(table: Table) -> str:
    return f"**{table.title}**\n\n{_body(table)}"


def _body(table: Table) -> str:
    return f"{_grid(table, 'github')}\n\n" + "".join(f"- {note}\n" for note in table.notes)


def folded(table: Table) -> str:
    """Write a table that opens when its title is clicked on."""
    return f"<details><summary>{table.title}</summary>\n\n{_body(table)}\n</details>\n"


def comma_separated(table: Table) -> str:
    """Write values as they are, and text where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *table.headers])
    for row in table.rows:
        writer.writerow([table.name, *(entry.text if entry.value != entry.value else entry.value for entry in row)])
    return out.getvalue()


def _grid(table: Table, form: str) -> str:
    rows = [[entry.text for entry in row] for row in [*table.rows, *([table.foot] if table.foot else [])]]
    align = ["left", *["right"] * (len(table.headers) - 1)]
    return tabulate(rows, table.headers, tablefmt=form, disable_numparse=True, colalign=align if rows else None)


FORMATS: dict[str, Callable[[Table], str]] = {"text": text, "markdown": markdown, "csv": comma_separated}
