"""HTML and SVG as text, which escapes whatever it is given unless that is markup already."""

from __future__ import annotations

import html
from collections.abc import Iterable

VOID = ("input", "meta")


class Markup(str):
    """Text that is markup, and is not escaped again."""

    __slots__ = ()


Child = str | Iterable[str]
Attribute = str | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Make an element. `data_query` is written `data-query`, `class_` `class`; None and False are left out."""
    opening = f"<{name}{''.join(_attribute(*each) for each in attributes.items())}>"
    return Markup(opening if name in VOID else f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Put children one after the other."""
    return Markup("".join(_child(child) for child in children))


def _child(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    return html.escape(child) if isinstance(child, str) else joined(child)


def _attribute(name: str, value: Attribute) -> str:
    spelled = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {spelled}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {spelled}="{html.escape(text)}"'
