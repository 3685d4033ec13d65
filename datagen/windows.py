"""A partition for window functions: the sales of a shop, and one sale more or less at a time, at the end or inside.

Scale factor 1 is 10,000 sales in one partition, which arrive in round 0. Then each round has one change: a sale is
inserted, and deleted in the next round. Three sales are inserted behind all others, and the fourth one in the middle
half of the order. The times `placed` of sales are different, ten apart at first, and four successive sales have one
`lot`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.datagen.schema import CHANGES_SCHEMA, Relations, relation
from deltamark.datagen.seeded import hashed
from deltamark.datagen.source import Parts, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 1
"""The version of the rows."""

ROWS = 10_000
"""The sales of scale factor 1."""

PLACES = ("end", "end", "end", "middle")
"""The places in the partition at which rows are inserted and deleted in turn.

A change in the middle may change many rows, so the next change meets cold caches. Hence several follow at the end.
"""

CYCLE = 2 * len(PLACES)
"""The rounds in which a row is inserted and deleted at each place in turn."""

CYCLES = 25
GAP, LOT, AMOUNTS = 10, 4, 10_000

SALES = "sales"
RELATIONS = Relations((relation(SALES, "", "id", "id:int shop:int placed:int lot:int amount:int"),))


def sales(rows: int) -> pa.Table:
    """Return the sales of a partition of some rows, and behind them those that come and go, in their order."""
    changing, ids = np.arange(len(PLACES) * CYCLES), np.arange(rows + len(PLACES) * CYCLES)
    middle = rows // 4 + hashed("windows middle", changing) % max(rows // 2, 1)
    is_end = np.tile([place == "end" for place in PLACES], CYCLES)
    more = np.where(is_end, GAP * (rows + changing), GAP * middle + GAP // 2)
    placed = np.concatenate([GAP * np.arange(rows), more])
    amounts = 1 + hashed("windows amount", ids) % AMOUNTS
    return pa.table({"id": ids, "shop": 0 * ids, "placed": placed, "lot": placed // (GAP * LOT), "amount": amounts})


def changes(rows: int) -> pa.Table:
    """Return the changes of a partition of some rows by rounds."""
    changing = np.arange(len(PLACES) * CYCLES)
    row = np.concatenate([np.arange(rows), np.repeat(rows + changing, 2)])
    diff = np.concatenate([np.ones(rows, np.int64), np.tile([1, -1], len(changing))])
    rounds = np.concatenate([np.zeros(rows, np.int64), np.arange(1, 1 + CYCLE * CYCLES)])
    return pa.table([row, diff, rounds], schema=CHANGES_SCHEMA)


class WindowRows(Source):
    name = "windows"
    relations = RELATIONS
    has_changes = True

    def version(self) -> str:
        return f"rows{VERSION}"

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        del spark  # one process draws the rows
        rows, files = int(sf * ROWS), {"rows": making / f"{SALES}.parquet", "changes": making / "changes.parquet"}
        pq.write_table(sales(rows), files["rows"])
        pq.write_table(changes(rows), files["changes"])
        report(1, 1)
        return Parts(RELATIONS, {SALES: [files["rows"]]}, {SALES: files["changes"]})


WINDOWS = WindowRows()
