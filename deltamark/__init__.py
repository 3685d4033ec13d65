"""deltamark: an incremental view maintenance engine, and a benchmark harness for such engines on TPC-H.

This module is the public interface. `connect` opens a database whose views are maintained, in SQL. To use the engine by
itself, declare inputs, build a plan, and feed a Dataflow:

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

import ast
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING

from deltamark.errors import unknown_attribute

if TYPE_CHECKING:
    from deltamark.database.connection import Connection as Connection
    from deltamark.database.connection import connect as connect
    from deltamark.database.result import Result as Result
    from deltamark.database.subscriptions import Changes as Changes
    from deltamark.database.subscriptions import Subscription as Subscription
    from deltamark.dataflow.batch import Batch as Batch
    from deltamark.dataflow.language.collection import Collection as Collection
    from deltamark.dataflow.language.collection import source as source
    from deltamark.dataflow.language.expr import Expr as Expr
    from deltamark.dataflow.language.expr import col as col
    from deltamark.dataflow.language.expr import count as count
    from deltamark.dataflow.language.expr import when as when
    from deltamark.dataflow.language.motif import Atom as Atom
    from deltamark.dataflow.language.motif import delta_query as delta_query
    from deltamark.dataflow.language.picks import PickExpr as PickExpr
    from deltamark.dataflow.language.picks import first as first
    from deltamark.dataflow.language.picks import last as last
    from deltamark.dataflow.language.picks import median as median
    from deltamark.dataflow.language.picks import quantile_cont as quantile_cont
    from deltamark.dataflow.language.picks import quantile_disc as quantile_disc
    from deltamark.dataflow.language.picks import string_agg as string_agg
    from deltamark.dataflow.language.windows import FrameExpr as FrameExpr
    from deltamark.dataflow.language.windows import WindowExpr as WindowExpr
    from deltamark.dataflow.language.windows import dense_rank as dense_rank
    from deltamark.dataflow.language.windows import groups_between as groups_between
    from deltamark.dataflow.language.windows import lag as lag
    from deltamark.dataflow.language.windows import lead as lead
    from deltamark.dataflow.language.windows import moving_count as moving_count
    from deltamark.dataflow.language.windows import moving_largest as moving_largest
    from deltamark.dataflow.language.windows import moving_smallest as moving_smallest
    from deltamark.dataflow.language.windows import moving_sum as moving_sum
    from deltamark.dataflow.language.windows import nth_value as nth_value
    from deltamark.dataflow.language.windows import ntile as ntile
    from deltamark.dataflow.language.windows import rank as rank
    from deltamark.dataflow.language.windows import row_number as row_number
    from deltamark.dataflow.language.windows import rows_between as rows_between
    from deltamark.dataflow.language.windows import running_count as running_count
    from deltamark.dataflow.language.windows import running_largest as running_largest
    from deltamark.dataflow.language.windows import running_smallest as running_smallest
    from deltamark.dataflow.language.windows import running_sum as running_sum
    from deltamark.dataflow.language.windows import values_between as values_between
    from deltamark.dataflow.motifs.static import StaticMotif as StaticMotif
    from deltamark.dataflow.runtime.dataflow import Dataflow as Dataflow
    from deltamark.dataflow.runtime.dataflow import Hold as Hold
    from deltamark.dataflow.sql.arrow_tables import arrow_batch as arrow_batch
    from deltamark.dataflow.sql.arrow_tables import arrow_changes as arrow_changes
    from deltamark.dataflow.sql.arrow_tables import arrow_table as arrow_table
    from deltamark.dataflow.sql.arrow_tables import parquet_table as parquet_table
    from deltamark.dataflow.sql.query import sql as sql
    from deltamark.dataflow.sql.tables import sql_tables as sql_tables
    from deltamark.dataflow.types import BOOL as BOOL
    from deltamark.dataflow.types import DOUBLE as DOUBLE
    from deltamark.dataflow.types import NULL as NULL
    from deltamark.dataflow.types import SHORT as SHORT
    from deltamark.dataflow.types import TEXT as TEXT
    from deltamark.dataflow.types import TIME as TIME
    from deltamark.dataflow.types import Schema as Schema
    from deltamark.dataflow.types import Type as Type
    from deltamark.dataflow.types import code_type as code_type
    from deltamark.dataflow.types import date_type as date_type
    from deltamark.dataflow.types import decimal as decimal
    from deltamark.dataflow.types import integer as integer
    from deltamark.dataflow.types import timestamp_type as timestamp_type
    from deltamark.errors import DeltamarkError as DeltamarkError

__version__ = "0.1.0"


def _modules() -> dict[str, str]:
    """Return the module of each public name: the imports for type checkers, above, are the only list of them."""
    statements = ast.parse(get_data(__name__, "__init__.py") or b"").body
    (listed,) = (each for each in statements if isinstance(each, ast.If))
    modules = {each.names[0].name: str(each.module) for each in listed.body if isinstance(each, ast.ImportFrom)}
    return {"__version__": __name__} | modules


_MODULE_OF = _modules()
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise unknown_attribute("deltamark", name, __all__)
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
