"""The document around the sections of a page: one HTML file with links, filters, sortable tables, styles and script.

HTML and SVG are text, in which strings are escaped, except those that are markup already.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.harness.console.table import Entries, Table, TableEntry
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT

VOID = ("input", "meta")


class Markup(str):
    """Text that is markup and must not be escaped again."""

    __slots__ = ()


MarkupChild = str | Iterable[str]
Attribute = str | float | bool | None


def tag(name: str, /, *children: MarkupChild, **attributes: Attribute) -> Markup:
    """Make an element. `data_query` stands for `data-query`, and `class_` for `class`; None and False are omitted."""
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Markup(opening if name in VOID else f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[MarkupChild]) -> Markup:
    """Concatenate children."""
    return Markup("".join(_child(child) for child in children))


def _child(child: MarkupChild) -> str:
    if isinstance(child, Markup):
        return child
    return html.escape(child) if isinstance(child, str) else joined(child)


def _attribute(name: str, value: Attribute) -> str:
    key = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {key}="{html.escape(text)}"'


Keys = Mapping[str, str]
"""The values of the filters: query, engine, workload."""


def data(keys: Keys) -> dict[str, Attribute]:
    return {f"data_{name}": value for name, value in keys.items()}


@dataclass(frozen=True)
class Section:
    """A section of the page. name: its id and the text of its link."""

    name: str
    title: str
    finding: str
    """A sentence with the number that the section shows."""
    text: str
    """The content of the section, and how to read it."""
    body: Sequence[Markup]


def render(section: Section) -> Markup:
    empty = tag("p", "Nothing matches these filters.", class_="empty", hidden=True)
    return tag(
        "section", tag("h2", section.title), tag("p", section.finding, class_="finding"),
        tag("p", section.text, class_="lead"), section.body, empty, id=section.name,
    )  # fmt: skip


def panels(children: Iterable[MarkupChild]) -> Markup:
    """Put panels side by side."""
    return tag("div", *children, class_="panels")


def beside(chart: Iterable[MarkupChild], legend: Markup) -> Markup:
    """Put a wide chart beside its legend."""
    return tag("div", *chart, legend, class_="beside")


def lists(children: Iterable[MarkupChild]) -> Markup:
    """Put lists side by side."""
    return tag("div", *children, class_="lists")


HERE = Path(__file__).parent

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page must not load anything."""


def script(name: str) -> Markup:
    """Embed a script of this folder."""
    return tag("script", _asset(name))


def document(
    title: str, header: Markup, sections: Sequence[Section], choices: Mapping[str, Sequence[str]] | None = None,
    scripts: Iterable[Markup] = (),
) -> str:  # fmt: skip
    """Return a page. choices: the values of each filter, if it has filters. scripts: more of them."""
    body = [
        header, _bar(sections, choices), tag("main", map(render, sections)),
        tag("div", id="tip", role="status", hidden=True), script("report.js"), *scripts,
    ]  # fmt: skip
    head = [
        tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=CONTENT_POLICY),
        tag("title", title), tag("style", _asset("report.css")),
    ]  # fmt: skip
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _asset(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))


def _bar(sections: Iterable[Section], choices: Mapping[str, Sequence[str]] | None) -> Markup:
    links = tag(
        "div", [tag("a", section.name.capitalize(), href=f"#{section.name}") for section in sections], class_="links"
    )
    return tag("nav", links, _filters(choices) if choices else "")


def _filters(choices: Mapping[str, Sequence[str]]) -> Markup:
    form = tag(
        "form", [_choice(name, values) for name, values in choices.items()],
        tag("button", "Show all", type="reset"), id="filters",
    )  # fmt: skip
    summary = tag("summary", "Filter", tag("span", id="filtered"))
    return tag("details", summary, form, class_="filter")


def _choice(name: str, values: Sequence[str]) -> Markup:
    boxes = [
        tag("label", tag("input", type="checkbox", name=name, value=value), tag("span", value), class_="chip")
        for value in values
    ]
    return tag("fieldset", tag("legend", name), tag("div", boxes, class_="chips"))


BAD = ("WRONG", "failed")
PROSE, LONG_NAME = 48, 20
"""The characters of the longest entry, and of the longest name of a row on a phone, that has one line. A column with a
longer entry is prose, whose lines are folded.
"""


def folded(table: Table, keys: Callable[[Entries], Keys], *, unfolded: bool, ids: Sequence[str] = ()) -> Markup:
    """Make a table that its title unfolds. keys: the filter values of a row. ids: those of all rows, or none."""
    notes = [tag("li", note) for note in table.notes]
    return tag(
        "details", tag("summary", table.title), grid(table, [keys(row) for row in table.rows], ids),
        tag("ul", notes, class_="notes") if notes else "", id=f"table-{table.name}", open=unfolded,
    )  # fmt: skip


def grid(table: Table, keys: Sequence[Keys], ids: Sequence[str] = ()) -> Markup:
    prose = {at for row in table.rows for at, entry in enumerate(row) if at and len(entry.text) > PROSE}
    names = [
        tag("th", tag("button", name, type="button"), scope="col", class_="prose" if at in prose else None)
        for at, name in enumerate(table.headers)
    ]
    rows = [
        tag("tr", _cells(row, prose), id=row_id or None, **data(row_keys))
        for row, row_keys, row_id in zip(table.rows, keys, ids or [""] * len(keys), strict=True)
    ]
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
