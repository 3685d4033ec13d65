"""Results of functions of interned or shared objects, kept for as long as the objects live."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

Key = TypeVar("Key")
Argument = TypeVar("Argument", bound=Hashable)
Result = TypeVar("Result")


def kept(function: Callable[[Key], Result]) -> Callable[[Key], Result]:
    """Compute a function once for each object, so that a traversal visits shared parts once."""
    results: WeakKeyDictionary[Key, Result] = WeakKeyDictionary()

    @wraps(function)
    def result(of: Key) -> Result:
        if of not in results:
            results[of] = function(of)
        return results[of]

    return result


def kept_by_argument(function: Callable[[Key, Argument], Result]) -> Callable[[Key, Argument], Result]:
    """Compute a function once for each object and argument."""
    results: WeakKeyDictionary[Key, dict[Argument, Result]] = WeakKeyDictionary()

    @wraps(function)
    def result(of: Key, argument: Argument) -> Result:
        known = results.setdefault(of, {})
        if argument not in known:
            known[argument] = function(of, argument)
        return known[argument]

    return result
