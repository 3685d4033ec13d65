"""The trial of `make data`: the data is byte for byte that of an undisturbed run, with no other files beside it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from deltamark.datagen.manifest import FILE
from deltamark.datagen.sealed import DIGEST
from deltamark.harness.chaos.running import CommandRun, Invocation
from deltamark.harness.system.machine import ROOT

Digests = dict[str, str]


class DataTrial:
    """settings: those that name the data, such as SF=0.01."""

    def __init__(self, settings: Sequence[str], scratch: Path, host_command: Sequence[str] = ()) -> None:
        self._settings, self._host_command = settings, host_command
        self._data, self._temporary = scratch / "data", scratch / "temporary"
        self._expected: Digests = {}

    @property
    def command(self) -> Invocation:
        words = [*self._host_command, sys.executable, "-m", "harness", "data", *self._settings, f"DATA={self._data}"]
        return Invocation(words, ROOT, self._temporary)

    def prepare(self) -> None:
        for directory in (self._data, self._temporary):
            shutil.rmtree(directory, ignore_errors=True)
        self._temporary.mkdir(parents=True)

    def keep_result(self) -> None:
        self._expected = digests(self._data)

    def violations(self, _struck: CommandRun) -> Iterator[str]:
        return differences(digests(self._data), self._expected)


def digests(data: Path) -> Digests:
    """Digest every file below a data directory, including hidden files; omit time stamps and seals of manifests."""
    return {str(path.relative_to(data)): _digest(path) for path in data.rglob("*") if not path.is_dir()}


def _digest(path: Path) -> str:
    if path.name != FILE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return json.dumps(json.loads(path.read_text(encoding="utf-8"), object_hook=_timeless))


def _timeless(content: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in content.items() if name not in ("mtime_ns", DIGEST)}


def differences(actual: Digests, expected: Digests) -> Iterator[str]:
    """Yield the differences between two directories."""
    yield from (f"{name} is missing" for name in sorted({*expected} - {*actual}))
    yield from (f"{name} was left" for name in sorted({*actual} - {*expected}))
    yield from (f"{name} has other bytes" for name in sorted({*expected} & {*actual}) if actual[name] != expected[name])
