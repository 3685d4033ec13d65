"""The document around the sections of a page: one HTML file with links, filters, styles and script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.section import Section, render

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
