"""The manifest of a data directory: its files, their sizes and digests, and the bounds of every column.

The manifest is written last, so a directory with a manifest is complete. It is sealed, so an edited one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from pathlib import Path

from deltamark.datagen.schema import RELATION_NAMES, RELATIONS, SCHEMA_VERSION, Column, RelationName, scale_factor
from deltamark.datagen.sealed import (
    DIGEST,
    UnsealedError,
    check_seal,
    exactly,
    keyed,
    listed,
    read_json,
    text,
    whole,
    write_sealed,
)
from deltamark.errors import DeltamarkError

FILE = "manifest.json"
ORDER_LINES = "order_lines"

MAX_INT64 = (1 << 63) - 1
MAX_CHUNK_ROWS = 1 << 30
MAX_CODES = (1 << 31) - 1

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
    """The files of a relation in order, the bounds of each column, and the sizes of the dictionaries."""

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
    """Files of one column: the position in lineitem of each order's first line, and last the number of lines."""

    @property
    def scale_factor(self) -> Decimal:
        return Decimal(self.sf)

    @property
    def files(self) -> list[Chunk]:
        return [chunk for files in self.relations.values() for chunk in files.chunks] + list(self.order_lines)

    def write(self, directory: Path) -> None:
        write_sealed(directory / FILE, asdict(self))


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a data directory; refuse an edited manifest, and one with another version."""
    path = directory / FILE
    again = f"move {directory} away and make the data again"
    try:
        raw = read_json(path)
        if (version := raw.get("schema_version")) != SCHEMA_VERSION:
            raise DeltamarkError(f"data of another version, not {SCHEMA_VERSION}", f"{path}: {version}", again)
        check_seal(raw)
        return _parsed(raw)
    except FileNotFoundError:
        raise DeltamarkError("no manifest in the data directory", directory, again) from None
    except UnsealedError as error:
        raise DeltamarkError("the manifest was edited", f"{path}: {error}", again) from error
    except ValueError as error:
        raise DeltamarkError("unreadable manifest", f"{path}: {error}", again) from error


def _parsed(raw: Mapping[str, object]) -> Manifest:
    keyed(raw, [*(field.name for field in fields(Manifest)), DIGEST], "the whole")
    exactly(raw["schema_version"], SCHEMA_VERSION, "schema_version")
    sf, generator = _scale_factor(text(raw["sf"], "sf")), text(raw["generator"], "generator")
    chunk_rows = whole(raw["chunk_rows"], 1, MAX_CHUNK_ROWS, "chunk_rows")
    if chunk_rows & (chunk_rows - 1):
        raise ValueError(f"chunk_rows is {chunk_rows}, not a power of two")
    stored = keyed(raw["relations"], RELATION_NAMES, "relations")
    relations = {name: _relation(stored[name], name, chunk_rows) for name in RELATION_NAMES}
    order_lines = chunks_of(raw["order_lines"], ORDER_LINES, chunk_rows)
    exactly(sum(chunk.rows for chunk in order_lines), relations["orders"].rows + 1, "the number of order_lines")
    return Manifest(SCHEMA_VERSION, sf, generator, chunk_rows, relations, order_lines)


def _scale_factor(raw: str) -> str:
    try:
        exactly(raw, str(scale_factor(raw)), "sf")
    except DeltamarkError as error:
        raise ValueError(f"sf is {error.cause}") from error
    return raw


def _relation(raw: object, name: RelationName, chunk_rows: int) -> RelationFiles:
    at, columns, codes = f"relations.{name}", RELATIONS[name].columns, RELATIONS[name].codes
    stored = keyed(raw, [field.name for field in fields(RelationFiles)], at)
    bounds = keyed(stored["bounds"], [column.name for column in columns], f"{at}.bounds")
    sizes = keyed(stored["dictionaries"], codes, f"{at}.dictionaries")
    return RelationFiles(
        chunks_of(stored["chunks"], name, chunk_rows, f"{at}.chunks"),
        {column.name: _bounds(bounds[column.name], column, f"{at}.bounds.{column.name}") for column in columns},
        {code: whole(sizes[code], 1, MAX_CODES, f"{at}.dictionaries.{code}") for code in codes},
    )


def _bounds(raw: object, column: Column, at: str) -> Bounds:
    pair = listed(raw, at)
    exactly(len(pair), 2, f"the length of {at}")
    limit = 1 << (31 if column.kind == "date" else 63)
    is_text = column.kind in ("code", "text")
    low, high = (text(value, at) if is_text else whole(value, -limit, limit - 1, at) for value in pair)
    if low > high:  # type: ignore[operator]
        raise ValueError(f"{at} is {raw}: the minimum is above the maximum")
    return low, high


def chunks_of(raw: object, folder: str, chunk_rows: int | None = None, at: str = "") -> tuple[Chunk, ...]:
    """Check a list of Arrow files in a folder; return it. chunk_rows: the rows of each but the last file."""
    at = at or folder
    chunks = tuple(_chunk(item, folder, number, f"{at}[{number}]") for number, item in enumerate(listed(raw, at)))
    for number, chunk in enumerate(chunks if chunk_rows else ()):
        is_last = number == len(chunks) - 1
        whole(chunk.rows, 1 if is_last else chunk_rows, chunk_rows, f"{at}[{number}].rows")  # type: ignore[arg-type]
    return chunks


def _chunk(raw: object, folder: str, number: int, at: str) -> Chunk:
    entry, file = keyed(raw, [field.name for field in fields(Chunk)], at), f"{folder}/{number:05}.arrow"
    exactly(entry["file"], file, f"{at}.file")
    rows, size, time = (whole(entry[key], 0, MAX_INT64, f"{at}.{key}") for key in ("rows", "bytes", "mtime_ns"))
    digest = text(entry["sha256"], f"{at}.sha256")
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"{at}.sha256 is no SHA-256 digest")
    return Chunk(file, rows, size, time, digest)
