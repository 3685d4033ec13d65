"""Digests of source files, which name caches, checkpoints and records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from deltamark import __version__


def digest(*packages: str) -> str:
    """Return a digest of all Python files in some packages and below, wherever they were imported from."""
    found = hashlib.blake2b(__version__.encode(), digest_size=8)
    for package in packages:
        for path, source in _sources(package.replace(".", "/"), files(package)):
            found.update(f"{path}\n".encode() + source.read_bytes())
    return found.hexdigest()


def _sources(path: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _sources(f"{path}/{entry.name}", entry)
        elif entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry
