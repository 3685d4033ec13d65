"""The catalogue: all queries by name.

A query is the `Query` in a file of `queries/tpch`, and has the file's name. A query outside the package is named by the
path of its file, which may be SQL. Each query has a variant `sql`, whose dataflow is made of the query's SQL.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType

from deltamark.errors import DeltamarkError, unknown
from deltamark.queries import tpch
from deltamark.queries.parameter_text import read_value
from deltamark.queries.query import Parameters, Query
from deltamark.queries.sql_text import VARIANT, from_text, read_sql


def _query_in(module: ModuleType) -> Query:
    queries = [value for value in vars(module).values() if isinstance(value, Query)]
    if len(queries) != 1:
        raise DeltamarkError("not one query in a file", f"{module.__file__}: {len(queries)}", "define one Query")
    queries[0].variants[VARIANT] = from_text(queries[0])
    return queries[0]


QUERIES: Mapping[str, Query] = {
    each.name: _query_in(import_module(f"{tpch.__name__}.{each.name}")) for each in pkgutil.iter_modules(tpch.__path__)
}


def query(name: str) -> Query:
    """Return a query by its name, or by the path of its file, in Python or in SQL."""
    if name.endswith(".sql"):
        return _sql_of(Path(name))
    if name.endswith(".py"):
        return _query_of(Path(name))
    if name not in QUERIES:
        raise unknown("query", name, QUERIES)
    return QUERIES[name]


@cache
def _sql_of(path: Path) -> Query:
    return read_sql(path)


@cache
def _query_of(path: Path) -> Query:
    spec = spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise DeltamarkError("no file of a query", path, "name a Python file that defines a Query")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return _query_in(module)


def parameters(
    name: str, scale_factor: Decimal, seed: int | None = None, given: Mapping[str, str] | None = None
) -> Parameters:
    """Return a query's parameters: those given as text, and the validation values, or values drawn by a seed."""
    definition = query(name)
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
