"""deltamark: an incremental view maintenance engine, and a benchmark harness for such engines on TPC-H.

This module is the public interface of the engine. Declare inputs, build a plan, and feed a Dataflow:

>>> from deltamark import Batch, Dataflow, col, integer, source
>>> sales = source("sales", {"shop": integer(1, 99), "price": integer(0, 10_000, scale=2)}, rows=1_000_000)
>>> revenue = sales.where(col.price > 5).aggregate(by="shop", revenue=col.price.sum())
>>> with Dataflow(revenue) as dataflow:
...     dataflow.feed({"sales": Batch([0, 0], [1, 1], {"shop": [7, 7], "price": [900, 650]})})
Batch of 1 change
 time  diff  shop  revenue
    0     1     7     1550

Names are imported when they are first used, because the compiled kernels take about a second to load.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from deltamark.errors import DeltamarkError, unknown_attribute

if TYPE_CHECKING:
    from deltamark.dataflow.batch import Batch
    from deltamark.dataflow.language.collection import Collection, source
    from deltamark.dataflow.language.expr import Expr, col, count, when
    from deltamark.dataflow.language.motif import Atom, delta_query
    from deltamark.dataflow.motifs.static import StaticMotif
    from deltamark.dataflow.runtime.dataflow import Dataflow, Hold
    from deltamark.dataflow.sql.arrow_tables import arrow_batch, arrow_changes, arrow_table, parquet_table
    from deltamark.dataflow.sql.query import sql
    from deltamark.dataflow.sql.tables import sql_tables
    from deltamark.dataflow.types import (
        BOOL,
        NULL,
        SHORT,
        TEXT,
        Schema,
        Type,
        code_type,
        date_type,
        decimal,
        integer,
    )

__version__ = "0.1.0"

__all__ = [
    "BOOL",
    "NULL",
    "SHORT",
    "TEXT",
    "Atom",
    "Batch",
    "Collection",
    "Dataflow",
    "DeltamarkError",
    "Expr",
    "Hold",
    "Schema",
    "StaticMotif",
    "Type",
    "__version__",
    "arrow_batch",
    "arrow_changes",
    "arrow_table",
    "code_type",
    "col",
    "count",
    "date_type",
    "decimal",
    "delta_query",
    "integer",
    "parquet_table",
    "source",
    "sql",
    "sql_tables",
    "when",
]

_NAMES = {
    "batch": ("Batch",),
    "language.collection": ("Collection", "source"),
    "language.expr": ("Expr", "col", "count", "when"),
    "language.motif": ("Atom", "delta_query"),
    "motifs.static": ("StaticMotif",),
    "runtime.dataflow": ("Dataflow", "Hold"),
    "sql.arrow_tables": ("arrow_batch", "arrow_changes", "arrow_table", "parquet_table"),
    "sql.query": ("sql",),
    "sql.tables": ("sql_tables",),
    "types": ("BOOL", "NULL", "SHORT", "TEXT", "Schema", "Type", "code_type", "date_type", "decimal", "integer"),
}
_MODULE_OF = {name: f"deltamark.dataflow.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise unknown_attribute("deltamark", name, __all__)
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
