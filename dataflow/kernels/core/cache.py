"""The cache of compiled kernels: keyed by what a function says, not by where its source lies, and checked when read.

So copies of the project share it, and so do the archives of it that Spark hands to its executors. Every file carries a
digest of its content: a file that was cut off or damaged counts as absent, and its kernel is compiled again. A cache
that cannot be written to saves nothing, and stops nothing.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from numba import config
from numba.core import dispatcher
from numba.core.caching import FunctionCache, IndexDataCacheFile

OTHERS = "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
"""Numba's own, for functions that no module of a file has."""

DIGEST_BYTES = 16


class DamagedError(OSError):
    """The content of a file does not have its digest."""


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
            return cls(function, file, loader.get_data(file))  # type: ignore[union-attr]
        except (AttributeError, OSError):
            return None

    def ensure_cache_path(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> bytes:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)


class Files(IndexDataCacheFile):
    """The files of one kernel: an index, and a data file for each signature. All begin with their digest."""

    def load(self, key: object) -> Any:
        with suppress(OSError):
            return super().load(key)
        return None

    def _load_index(self) -> dict[object, str]:
        try:
            version, stamp, names = pickle.loads(_read(self._index_path))  # noqa: S301 (written by us, and whole)
        except OSError:
            return {}
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[object, str]) -> None:
        self._save(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(_read(self._data_path(name)))  # noqa: S301 (written by us, and whole)

    def _save_data(self, name: str, data: object) -> None:
        self._save(self._data_path(name), data)

    def _save(self, path: str, what: object) -> None:
        content = self._dump(what)
        with self._open_for_write(path) as file:
            file.write(_digest(content) + content)


class Cache(FunctionCache):
    """Numba's cache of a function, with checked files for the functions that `Locator` finds."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._is_ours = isinstance(self._impl.locator, Locator)
        if self._is_ours:
            made = self._cache_file
            self._cache_file = Files(made._cache_path, self._impl.filename_base, made._source_stamp)  # noqa: SLF001

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError:
            if not self._is_ours:
                raise


def install() -> None:
    """Have numba use this cache. Numba lets one choose where files lie, but not how they are read."""
    dispatcher.FunctionCache = Cache  # type: ignore[attr-defined]
    if not config.CACHE_LOCATOR_CLASSES:  # type: ignore[attr-defined]
        config.CACHE_LOCATOR_CLASSES = f"{Locator.__module__}.{Locator.__name__},{OTHERS}"  # type: ignore[attr-defined]


def _read(path: str) -> bytes:
    content = Path(path).read_bytes()
    digest, body = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if digest != _digest(body):
        raise DamagedError(f"{path} does not have its digest")
    return body


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
