"""Engines in other processes, over pipes: so that any system can stand in the same tables.

The harness starts the program and writes requests to its standard input: a line of JSON, and after `feed` one Arrow IPC
stream a relation. The program answers each on its standard output with a line of JSON, and after `feed` one Arrow IPC
stream: the changes of the answer. An answer of `{"error": "..."}` fails the cell, and so does the end of the program.

    {"do": "open", "version": 1, "query": "q04", "sql": "SELECT ...", "workers": 1,
     "relations": {"orders": [["o_orderkey", "int64"], ...], ...}}                 ->  {"ok": true}
    {"do": "feed", "relations": ["lineitem", "orders"]} + their streams            ->  {"ok": true} + the changes
    {"do": "state"}                                                                ->  {"rows": 1500000}
    {"do": "close"}                                                                ->  the program ends

What is fed has the columns `time` and `diff` (int64, times never go back) and then those of `relations`; a feed holds
all changes of its times. What comes back has `time`, `diff` and the columns of the SELECT list in DuckDB's types; its
sum up to the end of a feed is the answer then. `examples/recompute.py` is such a program.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import relation
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.sql_rows import ARROW_NAMES, Typed
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.client import ONE_THREAD
from deltamark.queries.catalogue import query

PROTOCOL = 1
PREFIX = "exec:"
"""Before the program, in the name of such an engine."""

PATIENCE = 5.0
"""Seconds in which a program should end that was asked to."""


class Pipe:
    def __init__(self, cell: Cell, dataset: Dataset) -> None:
        self.inputs = reads(cell.sql, query(cell.query).relations)
        self._typed = Typed(dataset)
        self._engine = cell.engine
        own = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
        self._process = subprocess.Popen(command(cell.engine), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own)
        self._held: Counter[tuple[Any, ...]] = Counter()
        try:
            self._ask({
                "do": "open", "version": PROTOCOL, "query": cell.query, "sql": cell.sql, "workers": cell.workers,
                "relations": {name: _columns(name, columns) for name, columns in self.inputs.items()},
            })  # fmt: skip
        except BaseException:
            self.close()
            raise

    def prepare(self, deltas: list[Delta]) -> dict[str, pa.RecordBatch]:
        return {delta.relation: self._batch(delta) for delta in deltas}

    def _batch(self, delta: Delta) -> pa.RecordBatch:
        rows = self._typed.batch(delta)
        named = dict(zip(rows.schema.names, rows.columns, strict=True))
        return pa.RecordBatch.from_pydict({"time": delta.time, "diff": delta.diff, **named})

    def push(self, batch: dict[str, pa.RecordBatch]) -> int:
        return self.feed(batch).num_rows

    def advance(self, batch: dict[str, pa.RecordBatch]) -> None:
        self.push(batch)

    def feed(self, batch: dict[str, pa.RecordBatch]) -> pa.Table:
        """Hand a batch over; return the changes of the answer."""
        self._ask({"do": "feed", "relations": list(batch)}, *batch.values())
        try:
            return pa.ipc.open_stream(self._process.stdout).read_all()
        except pa.ArrowInvalid as error:
            raise self._broken("feed", error) from error

    def state_rows(self) -> int:
        return int(self._ask({"do": "state"})["rows"])

    def close(self) -> None:
        """Ask the program to end, and end it where it does not."""
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(b'{"do": "close"}\n')
            self._process.stdin.flush()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any], *streams: pa.RecordBatch) -> dict[str, Any]:
        try:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            for batch in streams:
                with pa.ipc.new_stream(self._process.stdin, batch.schema) as writer:
                    writer.write_batch(batch)
            self._process.stdin.flush()
            return self._answer(request["do"])
        except (OSError, ValueError, pa.ArrowInvalid) as error:
            raise self._broken(request["do"], error) from error

    def _answer(self, asked: str) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it has ended"}
        if "error" in answer:
            raise self._broken(asked, answer["error"])
        return answer

    def _broken(self, asked: str, what: object) -> DeltamarkError:
        return DeltamarkError(
            f"{self._engine} failed to {asked}", what, "harness/engines/external.py says what it should answer"
        )


class SummedPipe(Pipe):
    """One whose changes are added up."""

    def push(self, batch: dict[str, pa.RecordBatch]) -> int:
        changes = self.feed(batch)
        columns = [column.to_pylist() for column in changes.columns]
        for _, diff, *row in zip(*columns, strict=True):
            self._held[tuple(row)] += diff
        return changes.num_rows

    def answer(self) -> list[tuple[Any, ...]]:
        for row, weight in self._held.items():
            if weight < 0:
                raise self._broken("feed", f"it takes away what is not there: {row}, {weight} times")
        return [row for row, weight in self._held.items() for _ in range(weight)]


def _columns(name: str, columns: tuple[str, ...]) -> list[tuple[str, str]]:
    of = relation(name)
    return [(of.prefix + column, ARROW_NAMES[of.column(column).kind]) for column in columns]


def command(engine: str) -> list[str]:
    """Return the command that starts an engine, if there is such a program."""
    words = shlex.split(engine.removeprefix(PREFIX))
    if words and words[0].endswith(".py") and Path(words[0]).exists():
        return [sys.executable, *words]
    if words and shutil.which(words[0]):
        return words
    raise DeltamarkError("no such program", engine, "write ENGINES=exec:examples/recompute.py")
