"""The manifest of a data directory: its relations, its files, their sizes and digests, and the bounds of every column.

The manifest is written last, so a directory with a manifest is complete. It is sealed, so an edited one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Literal

from deltamark.datagen.schema import (
    COLUMN_KINDS,
    MAX_DIGITS,
    ROLES,
    SCHEMA_VERSION,
    Column,
    Relation,
    Relations,
    scale_factor,
)
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
MEMBERS, CHANGES = "first-members", "row-changes"
"""Folders beside those of the relations, whose names contain no hyphen."""

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
    """At least one, which may have no rows."""
    bounds: dict[str, Bounds]
    dictionaries: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True)
class Manifest:
    """sf: the scale factor, or empty. generator: what made the rows."""

    schema_version: int
    sf: str
    generator: str
    chunk_rows: int
    schema: Relations
    relations: dict[str, RelationFiles]
    members: dict[str, tuple[Chunk, ...]]
    """By relation with members elsewhere: files with the position of the first member of each row of the other
    relation, and last the number of members."""
    changes: dict[str, tuple[Chunk, ...]]
    """By relation: files with the changes of its rows by rounds; empty if no changes were given."""

    @property
    def scale_factor(self) -> Decimal:
        return Decimal(self.sf)

    @property
    def files(self) -> list[Chunk]:
        chunks = (*(each.chunks for each in self.relations.values()), *self.members.values(), *self.changes.values())
        return list(chain.from_iterable(chunks))

    def write(self, directory: Path) -> None:
        listed = {field.name: getattr(self, field.name) for field in fields(self)}
        chunks = {key: {name: _dicts(each) for name, each in listed[key].items()} for key in ("members", "changes")}
        write_sealed(
            directory / FILE,
            {
                **listed, **chunks, "schema": _dicts(self.schema.values()),
                "relations": {name: asdict(files) for name, files in self.relations.items()},
            },
        )  # fmt: skip


def _dicts(items: Iterable[Chunk] | Iterable[Relation]) -> list[dict[str, object]]:
    return [asdict(each) for each in items]


def folder_of(kind: Literal["members", "changes"], name: str) -> str:
    """Return the folder of the files with the first members, or with the changes, of a relation."""
    return f"{MEMBERS if kind == 'members' else CHANGES}/{name}"


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
    schema = _schema(raw["schema"])
    stored = keyed(raw["relations"], list(schema), "relations")
    relations = {name: _relation(stored[name], schema[name], chunk_rows) for name in schema}
    owners = {name: each.member_of for name, each in schema.items() if each.member_of}
    first = keyed(raw["members"], list(owners), "members")
    members = {name: chunks_of(first[name], folder_of("members", name), chunk_rows) for name in owners}
    for name, owner in owners.items():
        rows = sum(chunk.rows for chunk in members[name])
        exactly(rows, relations[owner].rows + 1, f"the number of first members in members.{name}")
    given = raw["changes"]
    named = keyed(given, list(schema) if given else [], "changes")
    changes = {name: chunks_of(each, folder_of("changes", name), chunk_rows) for name, each in named.items()}
    return Manifest(SCHEMA_VERSION, sf, generator, chunk_rows, schema, relations, members, changes)


def _schema(raw: object) -> Relations:
    found = [_described(each, f"schema[{number}]") for number, each in enumerate(listed(raw, "schema"))]
    return Relations(found)


def _described(raw: object, at: str) -> Relation:
    """Read the description of a relation as `asdict` writes it."""
    entry = keyed(raw, [field.name for field in fields(Relation)], at)
    name, prefix, owner = (text(entry[key], f"{at}.{key}") for key in ("name", "prefix", "member_of"))
    columns = tuple(
        _column(each, f"{at}.columns[{number}]")
        for number, each in enumerate(listed(entry["columns"], f"{at}.columns"))
    )
    key, changing, roles = (_texts(entry[each], f"{at}.{each}") for each in ("key", "changing", "roles"))
    references = tuple(_pair(_texts(each, f"{at}.references"), at) for each in _items(entry["references"], at))
    in_turn, repeats = (_flag(entry[each], f"{at}.{each}") for each in ("in_turn", "repeats_keys"))
    rank = whole(entry["rank"], 0, MAX_CODES, f"{at}.rank")
    known = tuple(role for role in ROLES if role in roles)
    exactly(sorted(known), sorted(roles), f"{at}.roles")
    return Relation(name, columns, key, prefix, references, owner, known, changing, in_turn, rank, repeats)


def _column(raw: object, at: str) -> Column:
    entry = keyed(raw, [field.name for field in fields(Column)], at)
    kind = next((each for each in COLUMN_KINDS if each == entry["kind"]), None)
    if kind is None:
        raise ValueError(f"{at}.kind is none of {', '.join(COLUMN_KINDS)}")
    digits, scale = (whole(entry[key], 0, MAX_DIGITS, f"{at}.{key}") for key in ("digits", "scale"))
    return Column(text(entry["name"], f"{at}.name"), kind, digits, scale, _flag(entry["nullable"], f"{at}.nullable"))


def _items(raw: object, at: str) -> list[object]:
    if not isinstance(raw, list):
        raise ValueError(f"{at} has no list where one is needed")  # noqa: TRY004
    return raw


def _texts(raw: object, at: str) -> tuple[str, ...]:
    return tuple(text(each, at) for each in _items(raw, at))


def _pair(words: tuple[str, ...], at: str) -> tuple[str, str]:
    exactly(len(words), 2, f"the length of a reference of {at}")
    return words[0], words[1]


def _flag(raw: object, at: str) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"{at} is neither true nor false")  # noqa: TRY004
    return raw


def _scale_factor(raw: str) -> str:
    if not raw:
        return raw
    try:
        exactly(raw, str(scale_factor(raw)), "sf")
    except DeltamarkError as error:
        raise ValueError(f"sf is {error.cause}") from error
    return raw


def _relation(raw: object, relation: Relation, chunk_rows: int) -> RelationFiles:
    name, columns, codes = relation.name, relation.columns, relation.codes
    at = f"relations.{name}"
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
        least = (len(chunks) > 1) if is_last else chunk_rows
        whole(chunk.rows, int(least or 0), chunk_rows or 0, f"{at}[{number}].rows")
    return chunks


def _chunk(raw: object, folder: str, number: int, at: str) -> Chunk:
    entry, file = keyed(raw, [field.name for field in fields(Chunk)], at), f"{folder}/{number:05}.arrow"
    exactly(entry["file"], file, f"{at}.file")
    rows, size, time = (whole(entry[key], 0, MAX_INT64, f"{at}.{key}") for key in ("rows", "bytes", "mtime_ns"))
    digest = text(entry["sha256"], f"{at}.sha256")
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"{at}.sha256 is no SHA-256 digest")
    return Chunk(file, rows, size, time, digest)
