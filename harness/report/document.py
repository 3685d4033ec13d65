"""The document around the sections of a page: one HTML file with links, filters, styles and script.

A section of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.harness.report.charts.marks import Markup, tag


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


def panels(children: Iterable[Markup]) -> Markup:
    """Put panels side by side."""
    return tag("div", children, class_="panels")


def lists(children: Iterable[Markup]) -> Markup:
    """Put lists side by side."""
    return tag("div", children, class_="lists")


HERE = Path(__file__).parent

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page must not load anything."""


def document(title: str, header: Markup, sections: Sequence[Section], choices: Mapping[str, Sequence[str]]) -> str:
    """Return a page. choices: the values of each filter."""
    body = [
        header, _bar(sections, choices), tag("main", map(render, sections)),
        tag("div", id="tip", role="status", hidden=True), tag("script", _asset("report.js")),
    ]  # fmt: skip
    head = [
        tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=CONTENT_POLICY),
        tag("title", title), tag("style", _asset("report.css")),
    ]  # fmt: skip
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _asset(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))


def _bar(sections: Iterable[Section], choices: Mapping[str, Sequence[str]]) -> Markup:
    links = [tag("a", section.name.capitalize(), href=f"#{section.name}") for section in sections]
    form = tag(
        "form", [_choice(name, values) for name, values in choices.items()],
        tag("button", "Show all", type="reset"), id="filters",
    )  # fmt: skip
    summary = tag("summary", "Filter", tag("span", id="filtered"))
    return tag("nav", tag("div", links, class_="links"), tag("details", summary, form, class_="filter"))


def _choice(name: str, values: Sequence[str]) -> Markup:
    boxes = [
        tag("label", tag("input", type="checkbox", name=name, value=value), tag("span", value), class_="chip")
        for value in values
    ]
    return tag("fieldset", tag("legend", name), tag("div", boxes, class_="chips"))
