"""The cache of compiled kernels: keyed by the source of a kernel, wherever the source lies, and verified when read.

So copies of the project share it, and so do the archives of it that Spark sends to its executors. Every file begins
with a digest of its content: a truncated or damaged file counts as absent, and its kernel is compiled again. If the
cache cannot be written, kernels are compiled in each process, and nothing fails.
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
from numba.core.typing.templates import Signature

OTHERS = "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
"""Numba's own locators, for functions without a source file."""

DIGEST_BYTES = 16


class DamagedError(OSError):
    """The content of a file does not have its digest."""


class Locator:
    """The cache directory and the source digest of one kernel, with the interface of `numba.core.caching`."""

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
    """The files of one kernel: one for each key, which consists of the argument types and the processor.

    Numba numbers the files, and lists them in an index. Two processes that compile a kernel at once for different types
    may choose the same number, and then one loads the code of the other. So the name here is a digest of the key.
    """

    def load(self, key: object) -> object:
        with suppress(OSError):
            found, data = pickle.loads(_read(self._path(key)))  # noqa: S301 (verified)
            return data if found == self._whole(key) else None
        return None

    def save(self, key: object, data: object) -> None:
        content = self._dump((self._whole(key), data))
        with self._open_for_write(self._path(key)) as file:
            file.write(_digest(content) + content)

    def _whole(self, key: object) -> object:
        return self._version, self._source_stamp, key

    def _path(self, key: object) -> str:
        name = _digest(repr(self._whole(key)).encode()).hex()
        return str(Path(self._cache_path) / f"{Path(self._index_name).stem}.{name}.nbc")


class Cache(FunctionCache):
    """Numba's cache of a function, with verified files if the function has a `Locator`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not config.CACHE_LOCATOR_CLASSES:  # type: ignore[attr-defined]  # numba forgets it if its variables change
            config.CACHE_LOCATOR_CLASSES = f"{Locator.__module__}.{Locator.__name__},{OTHERS}"  # type: ignore[attr-defined]
        super().__init__(function)
        self._is_ours = isinstance(self._impl.locator, Locator)
        if self._is_ours:
            numbas = self._cache_file
            self._cache_file = Files(numbas._cache_path, self._impl.filename_base, numbas._source_stamp)  # noqa: SLF001

    def save_overload(self, signature: Signature, data: object) -> None:
        try:
            super().save_overload(signature, data)
        except OSError:
            if not self._is_ours:
                raise


def install() -> None:
    """Make numba use this cache. Numba has a setting for the locators of files, but none for the way they are read."""
    dispatcher.FunctionCache = Cache  # type: ignore[attr-defined]


def _read(path: str) -> bytes:
    content = Path(path).read_bytes()
    digest, body = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if digest != _digest(body):
        raise DamagedError(f"{path} does not have its digest")
    return body


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
