"""Checks of JSON values against type annotations, for files that are read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from functools import cache
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

MAX_NUMBER = (1 << 63) - 1
MAX_QUOTED_CHARACTERS = 60


def stored_as(name: str, default: Any = MISSING) -> Any:
    """Declare a field of a dataclass that has another name in JSON."""
    return field(default=default, metadata={"json": name})


def json_name(declared: Field[Any]) -> str:
    return str(declared.metadata.get("json", declared.name))


def check(raw: Any, kind: Any, at: str) -> None:
    """Raise a ValueError that names the place unless a value has a type: a TypedDict, a collection or a simple type."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        _check_keys(raw, hints(kind), at)
    elif origin in (list, tuple):
        expected = f"{len(inner)} values" if origin is tuple else "a list"
        _require(isinstance(raw, list) and (origin is list or len(raw) == len(inner)), raw, expected, at)
        for number, value in enumerate(raw):
            check(value, inner[number] if origin is tuple else inner[0], f"{at}[{number}]")
    elif origin is dict:
        _require(isinstance(raw, dict), raw, "an object", at)
        for name, value in raw.items():
            check(value, inner[1], f"{at}.{name}")
    else:
        _check_simple(raw, kind, at)


def _check_simple(raw: Any, kind: Any, at: str) -> None:
    if get_origin(kind) is Literal:
        words = get_args(kind)
        _require(isinstance(raw, str) and raw in words, raw, f"one of {', '.join(words)}", at)
    elif kind is float:
        _require(type(raw) in (int, float) and 0 <= raw <= MAX_NUMBER, raw, "a number from 0 up", at)
    elif kind is int:
        _require(type(raw) is int and 0 <= raw <= MAX_NUMBER, raw, "a whole number from 0 up", at)
    else:
        _require(type(raw) is kind, raw, kind.__name__, at)


def check_fields(raw: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Check the values that are fields of a dataclass, and return them by field name; ignore all others."""
    values = {}
    for each in fields(kind):
        name = json_name(each)
        if name in raw:
            check(raw[name], hints(kind)[each.name], name)
            values[each.name] = raw[name]
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{name} is missing")
    return values


def _check_keys(raw: Any, kinds: Mapping[str, Any], at: str) -> None:
    _require(isinstance(raw, dict), raw, "an object", at)
    for name, kind in kinds.items():
        if name in raw:
            check(raw[name], get_args(kind)[0] if get_origin(kind) is NotRequired else kind, f"{at}.{name}")
        elif get_origin(kind) is not NotRequired:
            raise ValueError(f"{at}.{name} is missing")


@cache
def hints(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields, cached because resolving them is slow."""
    return get_type_hints(kind, include_extras=True)


def _require(holds: bool, raw: object, expected: str, at: str) -> None:  # noqa: FBT001
    if not holds:
        text = repr(raw)
        quoted = text if len(text) <= MAX_QUOTED_CHARACTERS else text[:MAX_QUOTED_CHARACTERS] + "..."
        raise ValueError(f"{at} is {quoted}, not {expected}")
