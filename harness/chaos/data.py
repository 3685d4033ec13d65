"""The trial of `make data`: the data is byte for byte that of an unharmed run, and nothing lies beside it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from deltamark.datagen.manifest import FILE
from deltamark.datagen.sealed import DIGEST
from deltamark.harness.chaos.running import Command, Ran
from deltamark.harness.results.machine import ROOT

Digests = dict[str, str]


class DataTrial:
    def __init__(self, sf: str, master: str, scratch: Path) -> None:
        self._sf, self._master = sf, master
        self._data, self._temporary = scratch / "data", scratch / "temporary"
        self._wanted: Digests = {}

    @property
    def command(self) -> Command:
        words = [sys.executable, "-m", "harness", "data", f"SF={self._sf}", f"DATA={self._data}"]
        return Command([*words, *([f"MASTER={self._master}"] if self._master else [])], ROOT, self._temporary)

    def begin(self) -> None:
        for each in (self._data, self._temporary):
            shutil.rmtree(each, ignore_errors=True)
        self._temporary.mkdir(parents=True)

    def learn(self) -> None:
        self._wanted = digests(self._data)

    def wrong(self, _struck: Ran, _again: Ran) -> Iterator[str]:
        return differences(digests(self._data), self._wanted)


def digests(data: Path) -> Digests:
    """Digest every file below a data directory, hidden ones too; of manifests all but times, and digests over them."""
    return {str(each.relative_to(data)): _digest(each) for each in data.rglob("*") if not each.is_dir()}


def _digest(path: Path) -> str:
    if path.name != FILE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    without = json.loads(path.read_text(encoding="utf-8"), object_hook=_timeless)
    return json.dumps(without)


def _timeless(of: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in of.items() if name not in ("mtime_ns", DIGEST)}


def differences(found: Digests, wanted: Digests) -> Iterator[str]:
    yield from (f"{name} is missing" for name in sorted({*wanted} - {*found}))
    yield from (f"{name} was left" for name in sorted({*found} - {*wanted}))
    yield from (f"{name} has other bytes" for name in sorted({*wanted} & {*found}) if found[name] != wanted[name])
