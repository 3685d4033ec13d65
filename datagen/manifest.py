"""The manifest of a data directory: its relations, its files, their sizes and digests, and the bounds of every column.

The manifest is written last, so a directory with a manifest is complete. It is sealed: its key `digest` has the BLAKE2
digest of all its other keys, and an edited one is refused. Engines compute addresses from its numbers, so its structure
is checked even if its digest is right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from deltamark.datagen.schema import SCHEMA_VERSION, Column, Relation, Relations, scale_factor
from deltamark.errors import DeltamarkError, refused

FILE = "manifest.json"
DIGEST = "digest"
MEMBERS, CHANGES = "first-members", "row-changes"
"""Folders beside those of the relations, whose names contain no hyphen."""

MAX_INT32, MAX_INT64 = (1 << 31) - 1, (1 << 63) - 1
MAX_CHUNK_ROWS = 1 << 30

Count = Annotated[int, Meta(ge=0, le=MAX_INT64)]
Bound = Annotated[int, Meta(ge=-MAX_INT64 - 1, le=MAX_INT64)] | str
Bounds = tuple[Bound, Bound]


@dataclass(frozen=True)
class Chunk:
    """An Arrow file: one record batch of `rows` rows."""

    file: str
    rows: Count
    bytes: Count
    mtime_ns: Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


Chunks = Annotated[tuple[Chunk, ...], Meta(min_length=1)]
"""Files in order, the last of which may have no rows."""


@dataclass(frozen=True)
class RelationFiles:
    """The files of a relation, the bounds of each column, and the sizes of the dictionaries."""

    chunks: Chunks
    bounds: dict[str, Bounds]
    dictionaries: dict[str, Annotated[int, Meta(ge=1, le=MAX_INT32)]]

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True)
class Manifest:
    """sf: the scale factor, or empty. generator: what made the rows."""

    schema_version: int
    sf: str
    generator: str
    chunk_rows: Annotated[int, Meta(ge=1, le=MAX_CHUNK_ROWS)]
    schema: Relations
    relations: dict[str, RelationFiles]
    members: dict[str, Chunks]
    """By relation with members elsewhere: files with the position of the first member of each row of the other
    relation, and last the number of members."""
    changes: dict[str, Chunks]
    """By relation: files with the changes of its rows by rounds; empty if no changes were given."""

    @property
    def files(self) -> list[Chunk]:
        chunks = (*(each.chunks for each in self.relations.values()), *self.members.values(), *self.changes.values())
        return list(chain.from_iterable(chunks))

    def write(self, directory: Path) -> None:
        relations = [asdict(each) for each in self.schema.values()]
        write_sealed(directory / FILE, msgspec.to_builtins(self, enc_hook=lambda _: relations))


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
        manifest = read_as(Manifest, raw)
        _check(manifest)
    except FileNotFoundError:
        raise DeltamarkError("no manifest in the data directory", directory, again) from None
    except UnsealedError as error:
        raise DeltamarkError("the manifest was edited", f"{path}: {error}", again) from error
    except ValueError as error:
        raise DeltamarkError("unreadable manifest", f"{path}: {error}", again) from error
    return manifest


def _check(manifest: Manifest) -> None:
    """Raise a ValueError if parts of a manifest contradict each other."""
    schema, relations = manifest.schema, manifest.relations
    owners = {name: each.member_of for name, each in schema.items() if each.member_of}
    _expect(manifest.sf, _plain(manifest.sf), "sf")
    _expect(manifest.chunk_rows & (manifest.chunk_rows - 1), 0, "chunk_rows modulo a power of two")
    _expect(sorted(relations), sorted(schema), "the names in relations")
    _expect(sorted(manifest.members), sorted(owners), "the names in members")
    _expect(sorted(manifest.changes or schema), sorted(schema), "the names in changes")
    for name, files in relations.items():
        check_chunks(files.chunks, name, manifest.chunk_rows)
        columns = schema[name].columns
        _expect(sorted(files.bounds), sorted(column.name for column in columns), f"the columns of bounds of {name}")
        _expect(sorted(files.dictionaries), sorted(schema[name].codes), f"the columns of dictionaries of {name}")
        for column in columns:
            _check_bounds(files.bounds[column.name], column)
    for name, owner in owners.items():
        check_chunks(manifest.members[name], folder_of("members", name), manifest.chunk_rows)
        rows = sum(chunk.rows for chunk in manifest.members[name])
        _expect(rows, relations[owner].rows + 1, f"the number of first members of {name}")
    for name, chunks in manifest.changes.items():
        check_chunks(chunks, folder_of("changes", name), manifest.chunk_rows)


def _plain(sf: str) -> str:
    """Return a scale factor as it is written."""
    try:
        return sf and str(scale_factor(sf))
    except DeltamarkError as error:
        raise ValueError(f"sf is {error.cause}") from error


def _check_bounds(bounds: Bounds, column: Column) -> None:
    kind = str if column.kind in ("code", "text") else int
    _expect([type(bound) for bound in bounds], [kind, kind], f"the types of the bounds of {column.name}")
    low, high = bounds
    if column.kind == "date" and not -MAX_INT32 - 1 <= int(low) <= int(high) <= MAX_INT32:
        raise ValueError(f"the bounds of {column.name} are {low} to {high}, which are no days")
    if low > high:  # type: ignore[operator]
        raise ValueError(f"the bounds of {column.name} are {low} to {high}: the minimum is above the maximum")


def check_chunks(chunks: tuple[Chunk, ...], folder: str, chunk_rows: int | None = None) -> None:
    """Raise a ValueError unless files are those of a folder. chunk_rows: the rows of each but the last file."""
    _expect([chunk.file for chunk in chunks], [f"{folder}/{at:05}.arrow" for at in range(len(chunks))], "the files")
    if chunk_rows is not None:
        *others, last = (chunk.rows for chunk in chunks)
        _expect(others, [chunk_rows] * len(others), f"the rows of the files of {folder}")
        if not bool(others) <= last <= chunk_rows:
            raise ValueError(f"the last file of {folder} has {last} rows, and the others have {chunk_rows}")


def _expect(actual: object, expected: object, what: str) -> None:
    if actual != expected:
        raise ValueError(f"{what}: {_quoted(actual)}, not {_quoted(expected)}")


MAX_QUOTED = 100
"""The number of characters of a value that an error quotes."""


def _quoted(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


class UnsealedError(ValueError):
    """Raised if the content of a file does not have the digest in the file."""


def digest_of(content: Mapping[str, object]) -> str:
    """Return the digest of an object's canonical JSON without the key of the digest."""
    rest = {name: value for name, value in content.items() if name != DIGEST}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def write_sealed(path: Path, content: Mapping[str, object]) -> None:
    """Write an object as JSON, and its digest as the last key."""
    path.write_text(json.dumps({**content, DIGEST: digest_of(content)}, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, object]:
    """Read a JSON object; raise FileNotFoundError without a file, and ValueError for other content."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refused(error, path) or error from error
    if not isinstance(raw, dict):
        raise ValueError(f"it is {_quoted(raw)}, not an object")  # noqa: TRY004 (one class for all malformed content)
    return raw


def check_seal(raw: Mapping[str, object]) -> None:
    """Raise UnsealedError unless an object has the digest that it contains."""
    expected, actual = raw.get(DIGEST), digest_of(raw)
    if expected != actual:
        raise UnsealedError(f"its digest is {actual}, not {_quoted(expected)}")


Read = TypeVar("Read")


def read_as(kind: type[Read], raw: Mapping[str, object]) -> Read:
    """Return a JSON object as a value of a dataclass; raise a ValueError that names the place of a wrong value."""
    return msgspec.convert(raw, kind, dec_hook=_relations)


def _relations(_: type, raw: Any) -> Relations:
    """Read the only class that is not a dataclass."""
    return Relations(msgspec.convert(raw, Annotated[tuple[Relation, ...], Meta(min_length=1)]))
