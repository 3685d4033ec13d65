"""A benchmark: relations, where their rows come from, and queries by name. It is a folder.

A query is a file of SQL, or a Python file that defines one `Query`; it has the file's name. A query outside the folder
is named by the path of its file. Each query has a variant `sql`, whose dataflow is made of the query's SQL.

A benchmark of this package has the name of its folder, and any other the path of its folder. Keys and order of arrival
that are given by settings are part of the name: `shop?keys=orders:id,lines:order_id+line?arrives=orders:placed`. So
records and data that were made with other ones have other names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import MappingProxyType, ModuleType

from deltamark import queries
from deltamark.dataflow.language.collection import Collection
from deltamark.datagen.schema import Relations
from deltamark.datagen.source import Source
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.benchmarks.description import DESCRIPTION, SETTINGS, described
from deltamark.queries.parameter_text import read_value
from deltamark.queries.query import Parameters, Query, Tables
from deltamark.queries.sql_text import VARIANT, from_text, read_sql

DEFAULT = "tpch"
"""The benchmark of a cell that names none."""

INCLUDED = Path(queries.__file__).resolve().parent

SEPARATOR = "?"
"""The beginning of each setting in the name of a benchmark. Neither make nor a shell divides a word there."""


@dataclass(frozen=True)
class Benchmark:
    """name: as cells name it, which is the path of its folder for one outside this package."""

    name: str
    title: str
    folder: Path
    source: Source

    @property
    def relations(self) -> Relations:
        """The relations as the source declares them. Those of the data may have codes instead of texts."""
        return self.source.relations

    @property
    def workload(self) -> str:
        """The workload of a cell that names none."""
        return "changes" if self.source.has_changes else "insert"

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """The queries of the folder by name."""
        paths: dict[str, Path] = {}
        for path in sorted(self.folder.iterdir()):
            if path.suffix in (".sql", ".py") and path.stem[0] not in "_.":
                if path.stem in paths:
                    problem = f"{paths[path.stem]} and {path.name}"
                    raise DeltamarkError("two files of one query", problem, "rename or remove one of them")
                paths[path.stem] = path
        found = {name: self._read(path) for name, path in paths.items()}
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
        given = name.endswith((".sql", ".py"))
        paths = [Path(name)] if given else [self.folder / f"{name}.sql", self.folder / f"{name}.py"]
        path = next(each for each in paths if each.exists())
        if path.suffix == ".py" and path.parent.parent == INCLUDED:
            return ""
        return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()

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

    def _read(self, path: Path) -> Query:
        if path.suffix == ".py" and self.folder.parent == INCLUDED:
            return _query_in(import_module(f"{queries.__name__}.{self.folder.name}.{path.stem}"))
        return _query_of(path)


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
    title, source = described(folder, settings)
    return Benchmark(name, title, folder, source)


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
