"""Where numba keeps what it has compiled of a function: by what the function says, not by where it lies.

So copies of the project share it, and so do the archives of it that Spark hands to its executors.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from numba import config

OTHERS = "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
"""Numba's own, for functions that no module of a file has."""


class Locator:
    """What numba asks of one: see `numba.core.caching`."""

    def __init__(self, function: Callable[..., Any], file: str, content: bytes) -> None:
        self._py_file = file
        self._line = function.__code__.co_firstlineno
        self._stamp = hashlib.blake2b(content).digest()
        self._path = Path(config.CACHE_DIR) / function.__module__  # type: ignore[attr-defined]

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self | None:
        loader = getattr(sys.modules.get(function.__module__), "__loader__", None)
        try:
            made = cls(function, file, loader.get_data(file))  # type: ignore[union-attr]
            made.ensure_cache_path()
        except (AttributeError, OSError):
            return None
        return made

    def ensure_cache_path(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> bytes:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)
