"""The description of a benchmark: the file benchmark.toml in its folder.

    title = "A shop"

    [relations.lines]
    files = ["lines/*.parquet"]          # default: lines.parquet, or lines/*.parquet
    key = ["order_id", "number"]
    arrives = "placed_at"                # rows with equal values arrive in one round
    change = "op"                        # insert, delete, update, or the words of Delta and Debezium
    weight = "diff"                      # or 1 for an insertion and -1 for a retraction
    references = { order_id = "orders", product_id = "products" }
    member_of = "orders"                 # they come and go with their orders
    roles = ["events"]                   # events, fixed, leaving, hot
    changing = ["quantity"]              # the columns that other workloads change
    in_turn = false

`generator = "tpch"` takes the place of relations. Without a description each Parquet file, and each folder of them, is
a relation.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from deltamark.datagen.files import FileSource, RelationSource, column_of
from deltamark.datagen.nexmark.source import NEXMARK
from deltamark.datagen.schema import ROLES, Column, Relation
from deltamark.datagen.source import Source
from deltamark.datagen.ssb import SSB
from deltamark.datagen.tpch import TPCH
from deltamark.errors import DeltamarkError, unknown

DESCRIPTION = "benchmark.toml"

GENERATORS: Mapping[str, Source] = {each.name: each for each in (TPCH, SSB, NEXMARK)}

Value = TypeVar("Value", bound=str | bool | list[str] | dict[str, object])

FIELDS = ("files", "key", "arrives", "change", "weight", "references", "member_of", "roles", "changing", "in_turn")
"""The fields of a relation."""


def described(folder: Path) -> tuple[str, Source]:
    """Read the description of a folder; return its title and the source of its rows."""
    path = folder / DESCRIPTION
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeltamarkError("a description that is no TOML", f"{path}: {error}", "correct it") from error
    for field in raw.keys() - {"title", "generator", "relations"}:
        raise unknown(f"field of {path}", field, ("title", "generator", "relations"))
    title = _typed(path, "title", raw.get("title", folder.name), str)
    if "generator" in raw:
        name = _typed(path, "generator", raw["generator"], str)
        if name not in GENERATORS:
            raise unknown(f"generator in {path}", name, GENERATORS)
        return title, GENERATORS[name]
    tables = _typed(path, "relations", raw.get("relations", {name: {} for name in _found(folder)}), dict)
    if not tables:
        raise DeltamarkError("no relation in a benchmark", folder, f"add Parquet files, or name them in {path.name}")
    sources = [
        _Reader(path, name, _typed(path, f"relations.{name}", each, dict)).source() for name, each in tables.items()
    ]
    _check_links(path, {each.relation.name: each.relation for each in sources})
    return title, FileSource(folder.resolve().name, sources)


class _Reader:
    """Reads the description of one relation."""

    def __init__(self, path: Path, name: str, raw: Mapping[str, object]) -> None:
        self._path, self._name, self._raw = path, name, raw
        if not name.isidentifier():
            raise DeltamarkError("not a name of a relation", f"{path}: {name}", "write letters, digits and _")
        for field in raw.keys() - set(FIELDS):
            raise unknown(f"field of relations.{name} in {path}", field, FIELDS)

    def source(self) -> RelationSource:
        files = self._files()
        texts = {field: self._get(field, "") for field in ("arrives", "change", "weight", "member_of")}
        columns = self._columns(files[0], {texts["change"], texts["weight"]} - {""}, texts["arrives"])
        known = [column.name for column in columns]
        key, changing, roles = (self._words(field) for field in ("key", "changing", "roles"))
        references: dict[str, object] = self._get("references", {})
        for field, names in {"key": key, "changing": changing, "references": tuple(references)}.items():
            for column in names:
                if column not in known:
                    raise unknown(f"column in relations.{self._name}.{field} of {self._path}", column, known)
        for role in roles:
            if role not in ROLES:
                raise unknown(f"role in relations.{self._name}.roles of {self._path}", role, ROLES)
        relation = Relation(
            self._name, columns, key, "", tuple((column, str(to)) for column, to in references.items()),
            texts["member_of"], tuple(role for role in ROLES if role in roles), changing,
            in_turn=bool(self._get("in_turn", default=False)),
        )  # fmt: skip
        return RelationSource(relation, files, texts["arrives"], texts["change"], texts["weight"])

    def _files(self) -> tuple[Path, ...]:
        folder, name = self._path.parent, self._name
        patterns = self._words("files") or (f"{name}.parquet", f"{name}/*.parquet")
        found = tuple(file for pattern in patterns for file in sorted(folder.glob(pattern)))
        if not found:
            raise DeltamarkError(f"no files of relations.{name}", f"{self._path}: {', '.join(patterns)}", "add them")
        return found

    def _columns(self, file: Path, apart: set[str], arrives: str) -> tuple[Column, ...]:
        """Return the columns of a file, except some. That of the arrival is one if its type is supported."""
        import duckdb  # noqa: PLC0415 (it takes a while to load)

        try:
            rows = duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(file)]).fetchall()
        except duckdb.Error as error:
            raise DeltamarkError("an unreadable Parquet file", f"{file}: {error}", "write it again") from error
        for name in {*apart, arrives} - {"", *(row[0] for row in rows)}:
            raise unknown(f"column of {file}", name, [row[0] for row in rows])
        columns = []
        for name, type_, *_ in rows:
            if name not in apart:
                column = column_of(name, type_, nullable=name not in self._words("key"))
                if isinstance(column, str) and name == arrives:
                    continue
                if isinstance(column, str):
                    remedy = "convert the column, or leave it out of the files"
                    raise DeltamarkError(f"{self._name}.{name} has a type that is not supported", column, remedy)
                columns.append(column)
        return tuple(columns)

    def _get(self, field: str, default: Value) -> Value:
        return _typed(self._path, f"relations.{self._name}.{field}", self._raw.get(field, default), type(default))

    def _words(self, field: str) -> tuple[str, ...]:
        raw = self._raw.get(field, [])
        return (raw,) if isinstance(raw, str) else tuple(map(str, self._get(field, [])))


def _found(folder: Path) -> list[str]:
    files = {path.stem for path in folder.glob("*.parquet")}
    return sorted(files | {path.parent.name for path in folder.glob("*/*.parquet")})


def _typed(path: Path, field: str, value: object, type_: type[Value]) -> Value:
    if not isinstance(value, type_):
        words = {"str": "a text", "list": "a list of texts", "dict": "a table", "bool": "true or false"}
        raise DeltamarkError(f"{field} is not {words[type_.__name__]}", f"{path}: {value}", "correct the description")
    return value


def _check_links(path: Path, relations: Mapping[str, Relation]) -> None:
    """Check that links lead to relations with a key of one whole number."""
    for relation in relations.values():
        at = f"relations.{relation.name}"
        for column, to in (*relation.references, *([("member_of", relation.member_of)] if relation.member_of else [])):
            if to not in relations:
                raise unknown(f"relation in {at}.{column} of {path}", to, relations)
            if len(relations[to].key) != 1:
                remedy = "give it a key of one column"
                raise DeltamarkError(f"{at}.{column} refers to no single key", f"{path}: {to}", remedy)
            if relations[to].column(relations[to].key[0]).kind != "int":
                remedy = "leave the reference out"
                raise DeltamarkError(f"{at}.{column} refers to a key of no whole numbers", f"{path}: {to}", remedy)
        if relation.member_of and not relation.reference_to(relation.member_of):
            remedy = f"add references = {{ COLUMN = {relation.member_of!r} }}"
            raise DeltamarkError(f"{at}.member_of without a reference", f"{path}: {relation.member_of}", remedy)
