"""Compiled loops: addresses in, addresses out; no clock, no IO.

Every operator of a compiled plan is a block of int64 words: its opcode, its parameters, and the addresses of its
inputs, outputs and state. A kernel is a function from the block's address to a status. `run` walks a program, which is
a list of blocks, in one call; so a feed costs one call from Python, however small it is and however many operators it
passes (measured: 0.6 microseconds a feed of one row through q05, against 6 with a call an operator).

numba caches what it compiles by the time stamp of one file, which is not enough for kernels that call each other:
the cache lives in a directory named by the content of them all.
"""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path

from numba import config

from dataflow.kernels.cache import OTHERS, Locator
from deltamark import __version__


def _cache_directory() -> Path:
    digest = hashlib.blake2b(__version__.encode(), digest_size=8)
    for source in sorted(files(__name__).iterdir(), key=lambda each: each.name):
        if source.name.endswith(".py"):
            digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    checked = "-checked" if os.environ.get("DELTAMARK_CHECKED", "0") not in ("", "0") else ""
    return Path(base) / "deltamark" / f"kernels-{digest.hexdigest()}{checked}"


def compiled_before() -> bool:
    """Has this machine compiled these kernels? If not, their first use takes about a minute."""
    directory = Path(config.CACHE_DIR)  # type: ignore[attr-defined]
    return any(directory.rglob("run.run-*.nbc"))


if not os.environ.get("NUMBA_CACHE_DIR"):
    config.CACHE_DIR = str(_cache_directory())  # type: ignore[attr-defined]
if not config.CACHE_LOCATOR_CLASSES:  # type: ignore[attr-defined]
    config.CACHE_LOCATOR_CLASSES = f"{Locator.__module__}.{Locator.__name__},{OTHERS}"  # type: ignore[attr-defined]
