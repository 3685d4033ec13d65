"""A section of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.report.marks import Explained, look
from harness.report.markup import Markup, tag
from harness.tables.lookup import DUCKDB, Lookup


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


def engine_words(engine: str) -> str:
    return "DuckDB, recomputing" if engine == DUCKDB else engine


def engines_explained(known: Lookup) -> Iterator[Explained]:
    return (Explained(look(at), "solid", engine_words(engine)) for at, engine in enumerate(known.engines))
