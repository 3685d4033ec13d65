"""Mutants of a JSON document, each of which differs from it in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

Path = tuple[str | int, ...]
Change = Callable[[Any, Any], None]
"""A function that changes an entry of a list or of an object, given the list or object and the key."""

VALUES = [None, [], {}, "x", "", -1, 0, 1.5, 10**30, True, [[]], float("nan")]


def mutants(raw: dict[str, Any], every: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield a description and the mutant. every: the step from one mutant to the next, which begins at random."""
    for name, path, change in islice(_changes(raw), Random().randrange(every), None, every):
        yield name, _changed(raw, path, change)


def _changes(raw: dict[str, Any]) -> Iterator[tuple[str, Path, Change]]:
    """Yield all changes of one place: a value is replaced, a key dropped or added, or a list doubled."""
    for path in _places(raw):
        for value in VALUES:
            yield f"{path} := {value!r}", path, lambda at, key, value=value: at.__setitem__(key, value)
        if path:
            yield f"{path} dropped", path, lambda at, key: at.__delitem__(key)
        value = _value_at(raw, path)
        if isinstance(value, dict):
            yield f"{path} gets a key", path, lambda at, key: at[key].__setitem__("more", 1)
        if isinstance(value, list):
            yield f"{path} is doubled", path, lambda at, key: at.__setitem__(key, at[key] * 2)


def same(one: Any, other: Any) -> bool:
    """Return whether two documents are the same JSON; for Python, 1 also equals 1.0 and True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _places(raw: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each value in a document; of a list, only the first and the last element."""
    yield path
    inner = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    for key, value in inner:
        if not isinstance(raw, list) or key in (0, len(raw) - 1):
            yield from _places(value, (*path, key))


def _value_at(raw: Any, path: Path) -> Any:
    for key in path:
        raw = raw[key]
    return raw


def _changed(raw: dict[str, Any], path: Path, change: Change) -> Any:
    whole = {"whole": copy.deepcopy(raw)}
    *above, last = ("whole", *path)
    change(_value_at(whole, tuple(above)), last)
    return whole["whole"]
