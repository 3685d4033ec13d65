"""The newest row of each key in a shard: a table of DuckDB, which turns upserts into changes with weights.

The table lives in a Python process, as the shards of a stage do (`LiveStates`). The log in Spark's state store has the
net changes of its rows, from which another process can rebuild it. A table that has missed batches is brought up to
date from the log. Everywhere, the columns have numbers for names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.spark.net_changes import WEIGHT, consolidated, from_bytes, to_bytes
from deltamark.dataflow.spark.planning.staged_plan import Edge
from deltamark.dataflow.spark.state_log import LiveStates, LogIndex, StateLog
from deltamark.dataflow.spark.upserts import ORDER, OWNER, UpsertSpec
from deltamark.dataflow.types import TEXT, Field
from deltamark.errors import DeltamarkError

ROWS = "rows"
"""The name of the rows in a log."""

CONFIG: dict[str, str | bool | int | float | list[str]] = {"enable_external_access": "false", "threads": 1}
"""The settings of DuckDB: the cores belong to the tasks of Spark."""


class LatestRows:
    """The newest row of each key, and the changes that upserts make.

    Upserts have one more column than rows, the last, which is true if the key is deleted.
    """

    def __init__(self, spec: UpsertSpec) -> None:
        self._key, names = spec.key, spec.rows.names
        self._numbers = [str(number) for number in range(len(names))]
        self._key_numbers = [str(names.index(name)) for name in spec.key]
        self._deleted = _quoted(str(len(names)))
        self._order = str(names.index(ORDER)) if ORDER in names else None
        fields = [pa.field(number, field.type) for number, field in zip(self._numbers, spec.rows, strict=True)]
        self._schema = pa.schema([pa.field(WEIGHT, pa.int64()), *fields])
        # the log has no use for the types: none of its columns is summed, and none has bounds
        self.edge = Edge(ROWS, 1, "here", (), tuple(Field(name, TEXT) for name in self._numbers))
        self._connection = duckdb.connect(config=CONFIG)
        self._connection.register("empty", pa.schema(fields).empty_table())
        self._connection.execute("CREATE TABLE latest AS FROM empty")

    def apply(self, upserts: pa.Table) -> pa.Table:
        """Apply the upserts of a batch; return the rows that leave, with weight -1, and those that enter."""
        run = self._connection.execute
        self._connection.register("arrived", upserts)
        run(f"CREATE OR REPLACE TEMP TABLE newest AS {self._newest}")
        self._connection.unregister("arrived")
        self._refuse_ambiguous()
        entering = f"SELECT {_listed(self._numbers)} FROM newest WHERE NOT {self._deleted}"
        changes = self._connection.sql(
            f"SELECT -1::BIGINT AS {WEIGHT}, * FROM latest WHERE rowid IN (SELECT place FROM newest) "
            f"UNION ALL SELECT 1::BIGINT, * FROM ({entering})"
        ).to_arrow_table()
        run("DELETE FROM latest WHERE rowid IN (SELECT place FROM newest)")
        run(f"INSERT INTO latest {entering}")
        return changes.cast(self._schema)

    def restore(self, net: pa.Table) -> None:
        """Bring the table up to date by the net changes of one or more batches."""
        run = self._connection.execute
        self._connection.register("net", consolidated(self.edge, net))
        run(f"DELETE FROM latest USING net WHERE {self._same_key('latest', 'net')}")
        run(f"INSERT INTO latest SELECT {_listed(self._numbers)} FROM net WHERE {WEIGHT} > 0")
        self._connection.unregister("net")

    def close(self) -> None:
        self._connection.close()

    @property
    def _newest(self) -> str:
        """The statement for the newest of the rows that arrived, and the place of the present row of each key."""
        newest, is_due = "SELECT DISTINCT * FROM arrived", ""
        if self._order is not None:
            order, key = _quoted(self._order), _listed(self._key_numbers)
            newest += f" QUALIFY rank() OVER (PARTITION BY {key} ORDER BY {order} DESC NULLS LAST) = 1"
            is_older = f"new.{order} < latest.{order} OR new.{order} IS NULL AND latest.{order} IS NOT NULL"
            is_due = f"WHERE latest.rowid IS NULL OR NOT coalesce({is_older}, false)"
        return (
            f"SELECT new.*, latest.rowid AS place FROM ({newest}) AS new "
            f"LEFT JOIN latest ON {self._same_key('new', 'latest')} {is_due}"
        )

    def _same_key(self, left: str, right: str) -> str:
        names = map(_quoted, self._key_numbers)
        return " AND ".join(f"{left}.{name} IS NOT DISTINCT FROM {right}.{name}" for name in names)

    def _refuse_ambiguous(self) -> None:
        key = _listed(self._key_numbers)
        found = self._connection.execute(f"SELECT {key} FROM newest GROUP BY {key} HAVING count(*) > 1 LIMIT 1")
        if row := found.fetchone():
            actual = ", ".join(f"{name} {value}" for name, value in zip(self._key, row, strict=True))
            remedy = "give order, the name of a column in which the rows of a key differ"
            raise DeltamarkError("rows of a micro-batch have one key, and none is the newest", actual, remedy)


class RowShardKey(NamedTuple):
    """The identity of a shard: the run of the query, the operator, and the label."""

    run: str
    operator: str
    label: int


_cached = LiveStates[RowShardKey, LatestRows]()


def process_batch(
    spec: UpsertSpec, key: RowShardKey, log: StateLog, batch: int, contents: Iterable[bytes]
) -> bytes | None:
    """Apply a batch of packed upserts to a shard; return the packed changes, if there are any."""
    index = log.index(spec.identity)
    rows = _restored(spec, key, log, index)
    changes = rows.apply(pa.concat_tables(from_bytes(content) for content in contents))
    log.append(index, batch, {ROWS: changes}, {ROWS: rows.edge})
    _cached.keep(key, batch, rows)
    return to_bytes(changes) if changes.num_rows else None


def _restored(spec: UpsertSpec, key: RowShardKey, log: StateLog, index: LogIndex) -> LatestRows:
    """Return the table of a shard in its state after the last committed batch."""
    batch, rows = _cached.take(key, index) or (-1, LatestRows(spec))
    if net := log.net_changes_after(index, batch):
        rows.restore(net[ROWS])
    return rows


@dataclass(frozen=True)
class Packing:
    """The task that packs upserts for their shards."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            for label in rows[OWNER].unique():
                content = to_bytes(rows.filter(pc.equal(rows[OWNER], label)).drop_columns([OWNER]))
                yield pa.RecordBatch.from_pydict({"label": pa.array([label.as_py()], pa.int64()), "content": [content]})


@dataclass(frozen=True)
class Unpacking:
    """The task that unpacks changes. schema: their columns."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for content in batch.column("content"):
                yield from from_bytes(content.as_py()).select(self.schema.names).cast(self.schema).to_batches()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(number: str) -> str:
    return f'"{number}"'
