"""HTML and SVG as text. Strings are escaped, except those that are markup already."""

from __future__ import annotations

import html
from collections.abc import Iterable

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
