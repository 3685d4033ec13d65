"""A section of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.report.charts.markup import Markup, tag


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
