"""The manifest of a data directory: what it holds, exactly. Written last, so where it stands the data is whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from datagen.schema import RELATIONS, SCHEMA_VERSION, RelationName
from deltamark import DeltamarkError

FILE = "manifest.json"

Bounds = tuple[int | str, int | str]


@dataclass(frozen=True)
class Chunk:
    """An Arrow file: one record batch of `rows` rows."""

    file: str
    rows: int
    bytes: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True)
class RelationFiles:
    """A relation's files in order; minimum and maximum of each column; sizes of its dictionaries."""

    chunks: tuple[Chunk, ...]
    bounds: dict[str, Bounds]
    dictionaries: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True)
class Manifest:
    schema_version: int
    sf: str
    generator: str
    chunk_rows: int
    relations: dict[RelationName, RelationFiles]
    order_lines: tuple[Chunk, ...]
    """Files of one column: the position in lineitem of each order's first line, and at the end their number."""

    @property
    def scale_factor(self) -> Decimal:
        return Decimal(self.sf)

    @property
    def files(self) -> list[Chunk]:
        return [chunk for files in self.relations.values() for chunk in files.chunks] + list(self.order_lines)

    def write(self, directory: Path) -> None:
        (directory / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a data directory, and refuse one that this version does not understand."""
    path = directory / FILE
    again = f"move {directory} away and run make data again"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DeltamarkError("no manifest in the data directory", directory, again) from None
    except (OSError, ValueError) as error:
        raise DeltamarkError("unreadable manifest", f"{path}: {error}", again) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise DeltamarkError(f"data of another version, not {SCHEMA_VERSION}", f"{path}: {version}", again)
    try:
        return _parsed(raw)
    except (KeyError, TypeError) as error:
        raise DeltamarkError("unreadable manifest", f"{path}: {error!r}", again) from error


def _parsed(raw: dict[str, Any]) -> Manifest:
    relations = {
        name: RelationFiles(
            _chunks(raw["relations"][name]["chunks"]),
            {column: (low, high) for column, (low, high) in raw["relations"][name]["bounds"].items()},
            raw["relations"][name]["dictionaries"],
        )
        for name in RELATIONS
    }
    return Manifest(**{**raw, "relations": relations, "order_lines": _chunks(raw["order_lines"])})


def _chunks(raw: list[dict[str, Any]]) -> tuple[Chunk, ...]:
    return tuple(Chunk(**chunk) for chunk in raw)
