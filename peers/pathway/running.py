"""A query that runs in Pathway: rows enter through one connector, and changes of the answer come back by batch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pathway as pw
from parts import Tables
from pathway.internals.parse_graph import G

END_OF_BATCH = -1
"""The relation of the row that ends a batch, and whose time is that of the batch."""

Changes = list[tuple[int, dict[str, Any]]]
"""Rows with a weight of 1 or -1."""

TYPES = {"int64": (int, 0), "decimal(2)": (int, 0), "date32": (int, 0), "string": (str, "")}
"""The types of columns in Pathway, and the values of columns that a row of another relation lacks."""


class Running:
    """The dataflow of a query, in a thread of its own."""

    def __init__(self, query: ModuleType, columns: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        G.clear()
        self._source = _Source()
        self._changes: list[tuple[tuple[object, ...], int]] = []
        self._ended = threading.Condition()
        self._marked = self._written = 0
        """The times of the last row that ends a batch, and of the last complete changes."""
        everything = pw.io.python.read(self._source, schema=_schema(columns), autocommit_duration_ms=None)
        answer = query.dataflow(Tables(everything, columns), parameters)
        names = answer.column_names()
        nothing = {name: pw.declare_type(answer.schema[name].dtype.typehint | None, None) for name in names}
        marks = everything.filter(pw.this.relation == END_OF_BATCH).select(is_mark=True, **nothing)
        both = answer.select(is_mark=False, **{name: pw.this[name] for name in names}).concat_reindex(marks)
        pw.io.subscribe(both, on_change=self._on_change, on_time_end=self._on_time_end)
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None
        self._thread.start()

    def apply(self, rows: Changes) -> Counter[tuple[object, ...]]:
        """Apply a batch; return the changes of the answer."""
        before = self._marked
        self._source.rows.put(rows)
        with self._ended:
            self._ended.wait_for(lambda: self._failure or before < self._marked <= self._written)
            changes, self._changes = self._changes, []
        if self._failure:
            raise self._failure
        net: Counter[tuple[object, ...]] = Counter()
        for row, diff in changes:
            net[row] += diff
        return net

    def close(self) -> None:
        self._source.rows.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        except BaseException as error:  # noqa: BLE001 (apply raises it)
            with self._ended:
                self._failure = error
                self._ended.notify()

    def _on_change(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: FBT001
        del key
        is_mark, *values = row.values()
        if is_mark:
            self._marked = time
        else:
            self._changes.append((tuple(values), 1 if is_addition else -1))

    def _on_time_end(self, time: int) -> None:
        with self._ended:
            self._written = time
            self._ended.notify()


class _Source(pw.io.python.ConnectorSubject):
    """All relations in one connector, so that the rows of a batch have one time."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: SimpleQueue[Changes | None] = SimpleQueue()

    @property
    def _deletions_enabled(self) -> bool:
        return True

    def run(self) -> None:
        while (rows := self.rows.get()) is not None:
            for diff, row in rows:
                if diff > 0:
                    self.next(**row)
                else:
                    self.delete(**row)
            self.commit()


def _schema(columns: Mapping[str, Any]) -> type[pw.Schema]:
    fields = {
        "row": pw.column_definition(dtype=int, primary_key=True),
        "relation": pw.column_definition(dtype=int),
    }
    for relation in columns.values():
        for name, type_ in relation:
            dtype, default = TYPES[type_]
            fields[name] = pw.column_definition(dtype=dtype, default_value=default)
    return pw.schema_builder(fields)
