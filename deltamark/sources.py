"""The source files of the project: their digests, which name caches, checkpoints and records, and their archive."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import deltamark
from deltamark import __version__

HOME = Path(deltamark.__file__).resolve().parent
PACKAGES = ("datagen", "dataflow", "queries", "harness")
ARCHIVE = "deltamark.zip"


def digest(*packages: str) -> str:
    """Return a digest of some modules, and of all in some packages and below, wherever they were imported from."""
    found = hashlib.blake2b(__version__.encode(), digest_size=8)
    for package in packages:
        for path, source in _sources(package.replace(".", "/"), package):
            found.update(f"{path}\n".encode() + source.read_bytes())
    return found.hexdigest()


def _sources(path: str, name: str) -> Iterator[tuple[str, Traversable]]:
    parent, _, last = name.rpartition(".")
    module = files(parent) / f"{last}.py"
    return iter([(f"{path}.py", module)]) if module.is_file() else _below(path, files(name))


def _below(path: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _below(f"{path}/{entry.name}", entry)
        elif entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry


def ship(context: Any, directory: Path) -> None:
    """Send the modules of this project to the executors of a Spark context, unless it has them.

    directory: a place for the archive, which is read as long as the context is open.
    """
    if any(name.endswith(f"/{ARCHIVE}") for name in context.listFiles):
        return
    with zipfile.ZipFile(directory / ARCHIVE, "w") as archive:
        for source in [*HOME.glob("*.py"), *(file for name in PACKAGES for file in (HOME / name).rglob("*.py"))]:
            archive.write(source, source.relative_to(HOME.parent))
    path = list(sys.path)
    context.addPyFile(str(directory / ARCHIVE))
    sys.path[:] = path  # only the executors need the archive
