"""Does JSON have the structure that annotations state? For what was written to files and is read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

MOST = (1 << 63) - 1
"""No number that is measured is larger."""

LONGEST = 60
"""Characters of a value that an error quotes."""


def check(raw: Any, kind: Any, at: str) -> None:
    """Raise a ValueError, which names the place, unless a value is of a type: a TypedDict, or made of simple ones."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        _check_keys(raw, hints(kind), at)
    elif origin in (list, tuple):
        long = f"{len(inner)} values" if origin is tuple else "a list"
        _require(isinstance(raw, list) and (origin is list or len(raw) == len(inner)), raw, long, at)
        for number, each in enumerate(raw):
            check(each, inner[number] if origin is tuple else inner[0], f"{at}[{number}]")
    elif origin is dict:
        _require(isinstance(raw, dict), raw, "an object", at)
        for name, each in raw.items():
            check(each, inner[1], f"{at}.{name}")
    else:
        _check_simple(raw, kind, at)


def _check_simple(raw: Any, kind: Any, at: str) -> None:
    if get_origin(kind) is Literal:
        words = get_args(kind)
        _require(isinstance(raw, str) and raw in words, raw, f"one of {', '.join(words)}", at)
    elif kind is float:
        _require(type(raw) in (int, float) and 0 <= raw <= MOST, raw, "a number from 0 up", at)
    elif kind is int:
        _require(type(raw) is int and 0 <= raw <= MOST, raw, "a whole number from 0 up", at)
    else:
        _require(type(raw) is kind, raw, kind.__name__, at)


def check_fields(raw: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Check those values that are fields of a dataclass, and return them; the rest is of no concern."""
    found = {}
    for each in fields(kind):
        if each.name in raw:
            check(raw[each.name], hints(kind)[each.name], each.name)
            found[each.name] = raw[each.name]
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{each.name} is missing")
    return found


def _check_keys(raw: Any, kinds: Mapping[str, Any], at: str) -> None:
    _require(isinstance(raw, dict), raw, "an object", at)
    for name, kind in kinds.items():
        if name in raw:
            check(raw[name], get_args(kind)[0] if get_origin(kind) is NotRequired else kind, f"{at}.{name}")
        elif get_origin(kind) is not NotRequired:
            raise ValueError(f"{at}.{name} is missing")


@cache
def hints(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields; resolving them takes long."""
    return get_type_hints(kind, include_extras=True)


def _require(holds: bool, raw: object, expected: str, at: str) -> None:  # noqa: FBT001
    if not holds:
        said = repr(raw)
        raise ValueError(f"{at} is {said if len(said) <= LONGEST else said[:LONGEST] + '...'}, not {expected}")
