"""A benchmark: relations, where their rows come from, and queries by name. It is a folder.

A query is a file of SQL, or a Python file that defines one `Query`; it has the file's name. A query outside the folder
is named by the path of its file. Each query has a variant `sql`, whose dataflow is made of the query's SQL.

A benchmark of this package has the name of its folder, and any other the path of its folder. Keys and order of arrival
that are given by settings are part of the name: `shop?keys=orders:id,lines:order_id+line?arrives=orders:placed`. So
records and data that were made with other ones have other names.

Its description is the file benchmark.toml:

    title = "A shop"

    [relations.lines]
    files = ["lines/*.parquet"]          # default: lines.parquet, or lines/*.parquet
    key = ["order_id", "number"]
    arrives = "placed_at"                # rows with equal values arrive in one round
    change = "op"                        # insert, delete, update, or the words of Delta and Debezium
    weight = "diff"                      # or 1 for an insertion and -1 for a retraction
    references = { order_id = "orders", product_id = "products", "shop day" = "openings" }
    member_of = "orders"                 # they come and go with their orders
    roles = ["events"]                   # events, fixed, leaving, hot
    changing = ["quantity"]              # the columns that other workloads change
    in_turn = false

`generator = "tpch"` takes the place of relations. Without a description each Parquet file, and each folder of them, is
a relation, and settings of the command line may give keys and order of arrival.

Texts may come from packages, which the command `packages` installs in a folder of their own:

    packages = "requirements.txt"        # with the hashes of all files
    queries = "some_package/*.sql"       # in the packages
    dialect = [["SUBSTR", "substring"]]  # regular expressions, and the texts that replace their matches
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from deltamark import queries
from deltamark.dataflow.sql import front_end
from deltamark.datagen.files import RESERVED, FileSource, RelationSource, column_of, read
from deltamark.datagen.nexmark import NEXMARK
from deltamark.datagen.schema import ROLES, Column, Relation, Relations
from deltamark.datagen.source import Source
from deltamark.datagen.ssb import SSB
from deltamark.datagen.tpcds import TpcdsGenerator
from deltamark.datagen.tpch import TPCH
from deltamark.datagen.windows import WINDOWS
from deltamark.datagen.workloads.registry import known_workload, small_workloads
from deltamark.errors import DeltamarkError, shortened, unknown
from deltamark.harness.benchmarks.packaged_texts import Dialect, PackagedTexts
from deltamark.harness.benchmarks.packages import Packages
from deltamark.queries.query import Parameters, Query, Tables, read_value
from deltamark.queries.sql_text import VARIANT, from_text, read_sql

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection

DESCRIPTION = "benchmark.toml"

INCLUDED = Path(queries.__file__).resolve().parent

TPCDS = TpcdsGenerator(lambda: Packages(INCLUDED / "tpcds" / "requirements.txt").file("bin/tpcgen-cli"))

GENERATORS: Mapping[str, Source] = {each.name: each for each in (TPCH, SSB, NEXMARK, TPCDS, WINDOWS)}

Value = TypeVar("Value", bound=str | bool | list[str] | dict[str, object])

TITLES = ("title", "generator", "relations", "packages", "queries", "dialect", "golden")
"""The fields of a description."""

FIELDS = ("files", "key", "arrives", "change", "weight", "references", "member_of", "roles", "changing", "in_turn")
"""The fields of a relation."""

SETTINGS: Mapping[str, str] = {"keys": "key", "arrives": "arrives"}
"""The settings that describe relations without a file, and the fields for which they stand."""


GOLDEN_SIZES = (1, 1000)
"""The sizes of logical batches that have golden digests if the description names none."""


class Description(NamedTuple):
    """The description of a folder. texts: its queries in packages; golden: as of a benchmark, or nothing."""

    title: str
    source: Source
    texts: PackagedTexts | None
    golden: Mapping[str, tuple[int, ...]]


def described(folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Description:
    """Read the description of a folder.

    settings: the keys and the order of arrival of relations in a folder without a description.
    """
    path = folder / DESCRIPTION
    given = ", ".join(f"{name.upper()}={value}" for name, value in settings.items())
    if settings and path.exists():
        raise DeltamarkError(f"a setting of a folder that has a {DESCRIPTION}", f"{folder}: {given}", "write it there")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeltamarkError("a description that is no TOML", f"{path}: {error}", "correct it") from error
    for field in raw.keys() - {*TITLES}:
        raise unknown(f"field of {path}", field, TITLES)
    title = _typed(path, "title", raw.get("title", folder.resolve().name), str)
    return Description(title, _source(folder, path, raw, settings), _texts(path, raw), _golden(path, raw))


def _golden(path: Path, raw: Mapping[str, object]) -> Mapping[str, tuple[int, ...]]:
    """Return the workloads of golden digests, and their sizes of logical batches."""
    given = _typed(path, "golden", raw.get("golden", {}), dict)
    for name, sizes in given.items():
        known_workload(name)
        if not isinstance(sizes, list) or not sizes or not all(type(each) is int and each > 0 for each in sizes):
            problem = f"{path}: {sizes}"
            raise DeltamarkError(f"golden.{name} is no list of sizes of logical batches", problem, "write [1, 1000]")
    return {name: tuple(sizes) for name, sizes in given.items()}


def _texts(path: Path, raw: Mapping[str, object]) -> PackagedTexts | None:
    """Return the queries of a description that lie in packages."""
    if "packages" not in raw:
        for field in ("queries", "dialect"):
            if field in raw:
                raise DeltamarkError(f"{field} without packages", path, "name the file of the packages")
        return None
    requirements, pattern = (_typed(path, field, raw.get(field, ""), str) for field in ("packages", "queries"))
    try:
        dialect = msgspec.convert(raw.get("dialect", ()), Dialect)
    except msgspec.ValidationError as error:
        raise DeltamarkError("dialect is no list of pairs", f"{path}: {error}", "write [[EXPRESSION, TEXT]]") from error
    return PackagedTexts(Packages(path.parent / requirements), pattern, dialect)


def _source(folder: Path, path: Path, raw: Mapping[str, object], settings: Mapping[str, str]) -> Source:
    """Return the source of the rows of a folder by its description, or by settings."""
    given = ", ".join(f"{name.upper()}={value}" for name, value in settings.items())
    if "generator" in raw:
        if "relations" in raw:
            raise DeltamarkError("a generator and relations", path, "leave one of them out")
        name = _typed(path, "generator", raw["generator"], str)
        if name not in GENERATORS:
            raise unknown(f"generator in {path}", name, GENERATORS)
        return GENERATORS[name]
    tables = _typed(path, "relations", raw.get("relations", _found(folder, settings)), dict)
    if not tables:
        raise DeltamarkError("no relation in a benchmark", folder, f"add Parquet files, or name them in {path.name}")
    readers = [
        _Reader(folder, given or path, name, _typed(path, f"relations.{name}", each, dict))
        for name, each in tables.items()
    ]
    sources = [reader.source() for reader in readers]
    _check_links(path, {each.relation.name: each.relation for each in sources})
    return FileSource(re.sub(r"[^\w.-]+", "-", folder.resolve().name), sources)


@cache
def _reserved() -> frozenset[str]:
    """Return the words that are no names in SQL unless they are quoted."""
    sql = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
    return frozenset(row[0] for row in front_end.parser().execute(sql).fetchall())


def _found(folder: Path, settings: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Return the relations whose files lie in a folder, each with the fields that settings give."""
    files = {path.stem for path in folder.glob("*.parquet")}
    found: dict[str, dict[str, object]] = {
        name: {} for name in sorted(files | {path.parent.name for path in folder.glob("*/*.parquet")})
    }
    for setting, text in settings.items():
        for word in text.split(","):
            name, colon, columns = word.partition(":")
            listed = columns.split("+")
            if not (name and colon and all(listed)) or (setting != "keys" and len(listed) > 1):
                form = "RELATION:COLUMN+COLUMN" if setting == "keys" else "RELATION:COLUMN"
                raise DeltamarkError(
                    f"not a value of {setting.upper()}", shortened(word), f"write {form}, with commas between relations"
                )
            if name not in found:
                raise unknown(f"relation in {setting.upper()}", name, found)
            if SETTINGS[setting] in found[name]:
                raise DeltamarkError(f"a relation that {setting.upper()} names twice", name, "name it once")
            found[name][SETTINGS[setting]] = listed if setting == "keys" else columns
    return found


class _Reader:
    """Reads the description of one relation. where: the file with the description, or the settings in its place."""

    def __init__(self, folder: Path, where: Path | str, name: str, raw: Mapping[str, object]) -> None:
        self._folder, self._where, self._name, self._raw = folder, where, name, raw
        if not name.isidentifier():
            raise DeltamarkError("not a name of a relation", f"{where}: {name}", "write letters, digits and _")
        if name.lower() in _reserved():
            raise DeltamarkError("a word of SQL as the name of a relation", f"{where}: {name}", "give it another name")
        for field in raw.keys() - set(FIELDS):
            raise unknown(f"field of relations.{name} in {where}", field, FIELDS)

    def source(self) -> RelationSource:
        files = self._files()
        texts = {field: self._get(field, "") for field in ("arrives", "change", "weight", "member_of")}
        if texts["change"] and texts["weight"]:
            problem = f"{self._where}: {texts['change']}, {texts['weight']}"
            raise DeltamarkError(f"relations.{self._name} has a change and a weight", problem, "leave one of them out")
        columns = self._columns(files, {texts["change"], texts["weight"]} - {""}, texts["arrives"])
        known = [column.name for column in columns]
        key, changing, roles = (self._words(field) for field in ("key", "changing", "roles"))
        references: dict[str, object] = self._get("references", {})
        for field, names in {"key": key, "changing": changing, "references": tuple(references)}.items():
            for column in " ".join(names).split() if field == "references" else names:
                if column not in known:
                    raise unknown(f"column in relations.{self._name}.{field} of {self._where}", column, known)
            if len({*names}) < len(names):
                problem = f"{self._where}: {', '.join(names)}"
                raise DeltamarkError(f"relations.{self._name}.{field} names a column twice", problem, "name it once")
        for role in roles:
            if role not in ROLES:
                raise unknown(f"role in relations.{self._name}.roles of {self._where}", role, ROLES)
        relation = Relation(
            self._name, columns, key, "", tuple((column, str(to)) for column, to in references.items()),
            texts["member_of"], tuple(role for role in ROLES if role in roles), changing,
            in_turn=bool(self._get("in_turn", default=False)),
        )  # fmt: skip
        return RelationSource(relation, files, texts["arrives"], texts["change"], texts["weight"])

    def _files(self) -> tuple[Path, ...]:
        folder, name = self._folder, self._name
        patterns = self._words("files") or (f"{name}.parquet", f"{name}/*.parquet")
        try:
            found = tuple(file for pattern in patterns for file in sorted(folder.glob(pattern)) if file.is_file())
        except (ValueError, NotImplementedError) as error:  # an empty pattern, or an absolute one
            problem = f"{self._where}: {', '.join(patterns)}"
            raise DeltamarkError(
                f"relations.{name}.files are no paths in the folder", problem, "correct them"
            ) from error
        if not found:
            raise DeltamarkError(f"no files of relations.{name}", f"{self._where}: {', '.join(patterns)}", "add them")
        return found

    def _columns(self, files: tuple[Path, ...], apart: set[str], arrives: str) -> tuple[Column, ...]:
        """Return the columns of some files, except some. That of the arrival is one if its type is supported."""
        import duckdb  # noqa: PLC0415 (it takes a while to load)

        try:
            with duckdb.connect() as connection:
                rows = connection.execute(f"DESCRIBE FROM {read(files)}").fetchall()
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise DeltamarkError("an unreadable Parquet file", f"{files[0]}: {first}", "write it again") from error
        for name in {*apart, arrives} - {"", *(row[0] for row in rows)}:
            raise unknown(f"column of {files[0]}", name, [row[0] for row in rows])
        columns = []
        for name, type_, *_ in rows:
            if name in apart:
                self._check_change(name, type_)
            else:
                column = column_of(name, type_, nullable=name not in self._words("key"))
                if isinstance(column, str) and name == arrives:
                    continue
                if isinstance(column, str):
                    remedy = "convert the column, or leave it out of the files"
                    cause = f"{self._name}.{name} has a type that is not supported"
                    raise DeltamarkError(cause, f"{files[0]}: {column}", remedy)
                if name.lower() in RESERVED or '"' in name:
                    raise DeltamarkError(
                        "a name that a column cannot have", f"{files[0]}: {name}", "give it another one"
                    )
                columns.append(column)
        if not columns:
            raise DeltamarkError(f"no column of {self._name}", f"{self._where}: {files[0]}", "add one to its files")
        return tuple(columns)

    def _check_change(self, name: str, type_: str) -> None:
        """Check the type of the column with the kinds or the weights of changes."""
        field = "change" if self._raw.get("change") == name else "weight"
        stored = column_of(name, type_, nullable=False)
        fits = not isinstance(stored, str) and stored.kind == ("text" if field == "change" else "int")
        if not fits:
            wanted = "a text" if field == "change" else "a whole number"
            problem = f"{self._where}: {name} is {type_}"
            raise DeltamarkError(
                f"relations.{self._name}.{field} is no column of {wanted}", problem, "name another column"
            )

    def _get(self, field: str, default: Value) -> Value:
        return _typed(self._where, f"relations.{self._name}.{field}", self._raw.get(field, default), type(default))

    def _words(self, field: str) -> tuple[str, ...]:
        raw = self._raw.get(field, [])
        if isinstance(raw, str):
            return (raw,)
        listed: list[str] = self._get(field, [])
        return tuple(_typed(self._where, f"relations.{self._name}.{field}", each, str) for each in listed)


def _typed(where: Path | str, field: str, value: object, type_: type[Value]) -> Value:
    if not isinstance(value, type_):
        words = {"str": "a text", "list": "a list of texts", "dict": "a table", "bool": "true or false"}
        raise DeltamarkError(f"{field} is not {words[type_.__name__]}", f"{where}: {value}", "correct the description")
    return value


def _check_links(path: Path, relations: Mapping[str, Relation]) -> None:
    """Check that links lead to relations with a key of whole numbers, and of as many columns."""
    for relation in relations.values():
        at = f"relations.{relation.name}"
        for column, to in (*relation.references, *([("member_of", relation.member_of)] if relation.member_of else [])):
            if to not in relations:
                raise unknown(f"relation in {at}.{column} of {path}", to, relations)
            if column == "member_of":
                continue
            if len(relations[to].key) != len(column.split()):
                remedy = "write a column for each of its key, with spaces between them"
                raise DeltamarkError(f"{at}.{column} refers to no key of as many columns", f"{path}: {to}", remedy)
            if any(relations[to].column(name).kind != "int" for name in relations[to].key):
                remedy = "leave the reference out"
                raise DeltamarkError(f"{at}.{column} refers to a key of no whole numbers", f"{path}: {to}", remedy)
        owners = [relation.name]
        while (owner := relations[owners[-1]].member_of) in relations:
            if owner in owners:
                problem = f"{path}: {', '.join([*owners, owner])}"
                raise DeltamarkError(f"{at}.member_of leads in a circle", problem, "leave one of them out")
            owners.append(owner)
        if relation.member_of and not relation.reference_to(relation.member_of):
            remedy = f"add references = {{ COLUMN = {relation.member_of!r} }}"
            raise DeltamarkError(f"{at}.member_of without a reference", f"{path}: {relation.member_of}", remedy)


DEFAULT = "tpch"
"""The benchmark of a cell that names none."""

SEPARATOR = "?"
"""The beginning of each setting in the name of a benchmark. Neither make nor a shell divides a word there."""


@dataclass(frozen=True)
class Benchmark:
    """name: as cells name it, which is the path of its folder for one outside this package."""

    name: str
    title: str
    folder: Path
    source: Source
    texts: PackagedTexts | None = None
    named_golden: Mapping[str, tuple[int, ...]] | None = None
    """The workloads of golden digests, and sizes of logical batches, that the description names."""

    @property
    def golden(self) -> Mapping[str, tuple[int, ...]]:
        """The workloads of golden digests, with their sizes of logical batches; by default a small one of each kind."""
        if self.named_golden:
            return self.named_golden
        names = [self.workload] if self.source.has_changes else small_workloads(self.relations)
        return dict.fromkeys(names, GOLDEN_SIZES)

    @property
    def relations(self) -> Relations:
        """The relations as the source declares them. Those of the data may have codes instead of texts."""
        return self.source.relations

    @property
    def workload(self) -> str:
        """The workload of a cell that names none."""
        return "changes" if self.source.has_changes else "insert"

    @cached_property
    def _paths(self) -> Mapping[str, Path]:
        """The files of the queries by name."""
        paths: dict[str, Path] = {}
        for path in [*sorted(self.folder.iterdir()), *(self.texts.files if self.texts else ())]:
            if path.suffix in (".sql", ".py") and path.stem[0] not in "_.":
                if path.stem in paths:
                    problem = f"{paths[path.stem]} and {path.name}"
                    raise DeltamarkError("two files of one query", problem, "rename or remove one of them")
                paths[path.stem] = path
        return paths

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """The queries of the folder, and of its packages, by name."""
        translated = self.texts.translation(self.relations.values()) if self.texts else str.strip
        found = {name: self._read(path, translated) for name, path in self._paths.items()}
        if not found:
            raise DeltamarkError("no query in a benchmark", self.folder, "write each into a file NAME.sql")
        return found

    def query(self, name: str) -> Query:
        """Return a query by its name, or by the path of its file."""
        if name.endswith((".sql", ".py")):
            return _query_of(Path(name))
        if name not in self.queries:
            raise unknown("query", name, self.queries)
        return self.queries[name]

    def digest(self, name: str) -> str:
        """Return a digest of the file of a query, so that an edited query is measured again.

        It is empty for a Python module of this package, which the digest of the code covers.
        """
        path = Path(name) if name.endswith((".sql", ".py")) else self._paths[name]
        if path.suffix == ".py" and path.parent.parent == INCLUDED:
            return ""
        content = self.queries[name].sql.encode() if self._is_packaged(path) else path.read_bytes()
        return hashlib.blake2b(content, digest_size=8).hexdigest()

    def reads(self, name: str) -> tuple[str, ...]:
        """Return the relations that a query reads."""
        return self.query(name).reads(self.relations)

    def plan(self, name: str, variant: str, relations: Mapping[str, Collection], values: Parameters) -> Collection:
        """Build the dataflow of a query."""
        definition = self.query(name)
        prefixes = {each.name: each.prefix for each in self.relations.values()}
        return definition.plan(variant or definition.default, Tables(relations, prefixes), values)

    def parameters(
        self, name: str, scale_factor: Decimal, seed: int | None = None, given: Mapping[str, str] | None = None
    ) -> Parameters:
        """Return a query's parameters: those given as text, and the validation values, or values drawn by a seed."""
        definition = self.query(name)
        if seed is not None and not definition.draws:
            remedy = "leave the seed out, or give parameters by name: --param name=value"
            raise DeltamarkError("no ranges to draw parameters from", name, remedy)
        chance = None if seed is None else Random(f"{Path(name).stem} {seed}")  # noqa: S311 (no secret)
        values = dict(definition.values(scale_factor, chance))
        for key, text in (given or {}).items():
            if key not in values:
                raise unknown(f"parameter of {name}", key, values)
            values[key] = read_value(key, text, values[key])
        return values

    def _is_packaged(self, path: Path) -> bool:
        return self.texts is not None and path.is_relative_to(self.texts.packages.folder)

    def _read(self, path: Path, translated: Callable[[str], str]) -> Query:
        if path.suffix == ".py" and self.folder.parent == INCLUDED:
            return _query_in(import_module(f"{queries.__name__}.{self.folder.name}.{path.stem}"))
        return read_sql(path, translated=translated) if self._is_packaged(path) else _query_of(path)


@cache
def included() -> tuple[str, ...]:
    """Return the names of the benchmarks of this package."""
    return tuple(sorted(path.parent.name for path in INCLUDED.glob(f"*/{DESCRIPTION}")))


def named(benchmark: str, settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the name of a benchmark: one for each folder, from whichever directory its path is given.

    settings: the keys and the order of arrival of relations, as written on the command line.
    """
    folder, own = parts(benchmark)
    path = Path(folder).resolve()
    if path.parent == INCLUDED and path.name in included():
        folder = path.name
    elif folder not in included() and path.is_dir():
        folder = os.path.relpath(path) if path.is_relative_to(Path.cwd().resolve()) else str(path)
    given = {**own, **settings}
    pairs = [f"{SEPARATOR}{name}={','.join(sorted(given[name].split(',')))}" for name in SETTINGS if name in given]
    return "".join([folder, *pairs])


def anywhere(name: str) -> str:
    """Return the name of a benchmark as it is written in any working directory."""
    folder, _ = parts(name)
    return name if folder in included() else f"{Path(folder).resolve()}{name.removeprefix(folder)}"


def benchmark(name: str = DEFAULT) -> Benchmark:
    """Return a benchmark by its name, or by the path of its folder."""
    return _read(name)


@cache
def _read(name: str) -> Benchmark:
    path, settings = parts(name)
    folder = INCLUDED / path if path in included() else Path(path)
    if not folder.is_dir() and (folder.exists() or len(folder.parts) > 1):
        raise DeltamarkError("no folder of a benchmark", path, f"name a folder, or {', '.join(included())}")
    if not folder.is_dir():
        raise unknown("benchmark", path, included())
    title, source, texts, golden = described(folder, settings)
    return Benchmark(name, title, folder, source, texts, golden)


def parts(name: str) -> tuple[str, dict[str, str]]:
    """Divide a name into the folder, in whose path the separator may occur, too, and the settings."""
    settings: dict[str, str] = {}
    while True:
        folder, _, last = name.rpartition(SEPARATOR)
        setting, equals, value = last.partition("=")
        if not (folder and equals and value and setting in SETTINGS) or Path(name).is_dir():
            return name, settings
        name, settings = folder, {setting: value, **settings}


@cache
def _query_of(path: Path) -> Query:
    """Read the file of a query, in Python or in SQL."""
    if path.suffix == ".sql":
        return read_sql(path)
    spec = spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise DeltamarkError("no file of a query", path, "name a Python file that defines a Query")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except DeltamarkError:
        raise
    except Exception as error:
        problem = f"{path}: {type(error).__name__}: {error}"
        raise DeltamarkError("the file of a query cannot be run", problem, "correct it; --debug shows more") from error
    return _query_in(module)


def _query_in(module: ModuleType) -> Query:
    found = [value for value in vars(module).values() if isinstance(value, Query)]
    if len(found) != 1:
        raise DeltamarkError("not one query in a file", f"{module.__file__}: {len(found)}", "define one Query")
    found[0].variants[VARIANT] = from_text(found[0])
    return found[0]
