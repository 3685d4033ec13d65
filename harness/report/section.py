"""A section of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.report.charts.markup import Markup, tag


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    text: str
    """What is seen, and how to read it."""
    body: Sequence[Markup]


def shown(section: Section) -> Markup:
    empty = tag("p", "These filters leave nothing here.", class_="empty", hidden=True)
    return tag(
        "section", tag("h2", section.title), tag("p", section.text, class_="lead"), section.body, empty,
        id=section.name,
    )  # fmt: skip


def panels(made: Iterable[Markup]) -> Markup:
    """Put panels side by side."""
    return tag("div", made, class_="panels")


def lists(made: Iterable[Markup]) -> Markup:
    """Put lists side by side."""
    return tag("div", made, class_="lists")
