"""The stream of a star schema: the small tables come first, lineorder in batches, and then rows are retracted.

Retracted are the first tenth of lineorder, in batches of the same size, and then the first tenth of every other table.
So the live rows of a table are always consecutive, as DuckDB's views of them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.sql.arrow_tables import arrow_batch, parquet_table
from deltamark.dataflow.sql.query import sql
from deltamark.harness.check.table_oracle import LiveRanges, named_columns
from deltamark.harness.suites.ssb.star import KEYS, TABLES, path_of
from deltamark.queries.ssb import TEXTS

FACTS = "lineorder"

RETRACTED_SHARE = 10
"""The reciprocal of the share of rows that are retracted at the end."""


@dataclass(frozen=True)
class TableChange:
    """The consecutive rows `start` to `stop` - 1 of a table, which are inserted (diff 1) or retracted (diff -1)."""

    table: str
    start: int
    stop: int
    diff: int

    def applied(self, live: LiveRanges) -> LiveRanges:
        """Return the live rows of all tables after this change."""
        rows = live[self.table]
        changed = range(rows.start, self.stop) if self.diff > 0 else range(self.stop, rows.stop)
        return {**live, self.table: changed}


@dataclass(frozen=True)
class StarQuery:
    """A query over the tables of a directory."""

    name: str
    directory: Path

    @property
    def text(self) -> str:
        return TEXTS[self.name]

    @cached_property
    def columns(self) -> Mapping[str, list[str]]:
        """The columns that the text names, of the tables that it names."""
        return named_columns(self.text, {each: pq.read_schema(path_of(self.directory, each)) for each in TABLES})

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The rows of these columns."""
        return {
            table: pq.read_table(path_of(self.directory, table), columns=columns)
            for table, columns in self.columns.items()
        }

    @cached_property
    def plan(self) -> Collection:
        return sql(self.text, self._relations)

    @cached_property
    def rows(self) -> Mapping[str, int]:
        return {table: pq.read_metadata(path_of(self.directory, table)).num_rows for table in self.columns}

    @cached_property
    def _relations(self) -> Mapping[str, Collection]:
        return {
            table: parquet_table(table, path_of(self.directory, table), key=KEYS[table].split()) for table in TABLES
        }

    def steps(self, batch_rows: int) -> Iterator[Sequence[TableChange]]:
        """Yield the changes of each logical time."""
        others = [table for table in self.rows if table != FACTS]
        facts = self.rows[FACTS]
        retracted = {table: rows // RETRACTED_SHARE for table, rows in self.rows.items()}
        yield [TableChange(table, 0, self.rows[table], 1) for table in others]
        for last, diff in ((facts, 1), (retracted[FACTS], -1)):
            for start in range(0, last, batch_rows):
                yield [TableChange(FACTS, start, min(start + batch_rows, last), diff)]
        yield [TableChange(table, 0, retracted[table], -1) for table in others]

    def batches(self, inputs: Mapping[str, Sequence[str]], batch_rows: int) -> Iterator[dict[str, Batch]]:
        """Yield a batch of each logical time, with the columns that a dataflow reads."""
        tables = {
            name: pq.read_table(path_of(self.directory, name), columns=list(columns)).combine_chunks()
            for name, columns in inputs.items()
        }
        for time, changes in enumerate(self.steps(batch_rows)):
            read = {each: tables[each.table] for each in changes if each.table in tables}
            yield {
                each.table: arrow_batch(
                    rows.slice(each.start, each.stop - each.start), self._relations[each.table].schema, time, each.diff
                )
                for each, rows in read.items()
            }
