"""Kernels: compiled loops over blocks of memory, without IO. Only `batches` reads a clock.

Every operator of a compiled plan is a block of int64 words: its parameters, and the addresses of its inputs, outputs
and state. A kernel takes the address of a block and returns a status. The interpreter runs all
operators of a program in one call, so a feed costs one call from Python (measured: 0.6 microseconds for a feed of one
row through q05, against 6 with a call for each operator).

Compiled kernels are cached in a directory named by the digest of all sources of kernels. Numba's own cache compares the
time stamp of one file, which is not enough for kernels that call each other.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from numba import config

from deltamark.dataflow.kernels.core.cache import install
from deltamark.sources import digest

COMPILED = (__name__, "deltamark.dataflow.operators", "deltamark.dataflow.interpreter")
"""The packages that have kernels."""


def _cache_directory() -> Path:
    checked = "-checked" if os.environ.get("DELTAMARK_CHECKED", "0") not in ("", "0") else ""
    places = [base / f"kernels-{digest(*COMPILED)}{checked}" for base in _bases()]
    return next(filter(_is_usable, places), places[0])


def _bases() -> Iterator[Path]:
    """Yield the directories in which the cache may lie, the preferred one first."""
    if base := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(base)
    if base := os.environ.get("XDG_CACHE_HOME"):
        yield Path(base) / "deltamark"
    else:
        with suppress(RuntimeError):  # a user without a home
            yield Path.home() / ".cache" / "deltamark"
    yield Path(tempfile.gettempdir()) / f"deltamark-{os.getuid()}"


def _is_usable(directory: Path) -> bool:
    """Return whether the directory exists or can be made, and belongs to this user or to root. It may be read-only."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return directory.stat().st_uid in (0, os.getuid()) and os.access(directory, os.R_OK | os.X_OK)
    except OSError:
        return False


def compiled_before() -> bool:
    """Return whether this machine has compiled all of these kernels, which takes about a minute."""
    return _mark().exists()


def mark_compiled() -> None:
    """Note that all kernels are in the cache, if it can be written."""
    with suppress(OSError):
        _mark().touch()


def _mark() -> Path:
    return Path(config.CACHE_DIR) / "all"  # type: ignore[attr-defined]


def is_writable() -> bool:
    """Return whether compiled kernels can be stored; otherwise each process compiles them again."""
    directory = Path(config.CACHE_DIR)  # type: ignore[attr-defined]
    return os.access(directory if directory.exists() else directory.parent, os.W_OK)


config.CACHE_DIR = str(_cache_directory())  # type: ignore[attr-defined]
install()
