"""External engines: programs that exchange lines of JSON and Arrow streams with the harness over pipes.

The harness writes requests to the standard input of the program: a line of JSON, and after `feed` one Arrow IPC stream
for each relation. The program replies to each request on its standard output with a line of JSON, and after `feed` with
one Arrow IPC stream, the changes of the answer. The reply `{"error": "..."}` fails the cell, and so does the end of the
program.

    {"do": "open", "version": 1, "query": "q04", "sql": "SELECT ...", "workers": 1,
     "relations": {"orders": [["o_orderkey", "int64"], ...], ...}}                 ->  {"ok": true}
    {"do": "feed", "relations": ["lineitem", "orders"]} + their streams            ->  {"ok": true} + the changes
    {"do": "state"}                                                                ->  {"rows": 1500000}
    {"do": "close"}                                                                ->  the program ends

The streams of a feed have the columns `time` and `diff` (int64; times never decrease) and then those of `relations`. A
feed holds all changes of its times. The reply has the columns `time`, `diff` and those of the SELECT list in DuckDB's
types; the sum of all replies up to a feed is the answer after it. `examples/recompute.py` is such a program.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.base import Capabilities, FedEngine, Sink, feed_of
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.sql_rows import ARROW_NAMES, SqlRows
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.client import ONE_THREAD, shut_down

PROTOCOL_VERSION = 1


class ProgramReply(msgspec.Struct, frozen=True):
    """The reply to a request."""

    error: str | None = None
    """The reason why the program cannot fulfil the request."""
    rows: int = 0


class ExternalEngine(FedEngine[dict[str, pa.RecordBatch]]):
    """A program that returns the changes of each batch."""

    name = "exec:PROGRAM"
    prefix = "exec:"
    capabilities = Capabilities(output="batches")

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        inputs = sql_inputs(cell)
        self.feed = feed_of(cell, dataset, work, inputs)
        self._rows, self._engine, self._sink = SqlRows(dataset), cell.engine, sink
        own = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
        self._process = subprocess.Popen(command(cell.engine), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own)
        try:
            self._request({
                "do": "open", "version": PROTOCOL_VERSION, "query": cell.query, "sql": cell.sql,
                "workers": cell.workers, "relations": {name: _columns(name, each) for name, each in inputs.items()},
            })  # fmt: skip
        except BaseException:
            self.close()
            raise

    @classmethod
    def check_name(cls, name: str) -> None:
        command(name)

    def prepare(self, deltas: list[Delta]) -> dict[str, pa.RecordBatch]:
        return {delta.relation: self._batch(delta) for delta in deltas}

    def _batch(self, delta: Delta) -> pa.RecordBatch:
        rows = self._rows.batch(delta)
        named = dict(zip(rows.schema.names, rows.columns, strict=True))
        return pa.RecordBatch.from_pydict({"time": delta.time, "diff": delta.diff, **named})

    def apply(self) -> int:
        self._request({"do": "feed", "relations": list(self.batch)}, *self.batch.values())
        try:
            changes = pa.ipc.open_stream(self._process.stdout).read_all()
        except pa.ArrowInvalid as error:
            raise self._failure("feed", error) from error
        if self._sink is not None:
            self._sink(changes)
        return int(changes.num_rows)

    def state_rows(self) -> int:
        return self._request({"do": "state"}).rows

    def close(self) -> None:
        """Send `close` to the program, and kill it if it does not end."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(b'{"do": "close"}\n')
            self._process.stdin.flush()
        shut_down(self._process)

    def _request(self, request: dict[str, object], *streams: pa.RecordBatch) -> ProgramReply:
        try:
            assert self._process.stdin
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            for batch in streams:
                with pa.ipc.new_stream(self._process.stdin, batch.schema) as writer:
                    writer.write_batch(batch)
            self._process.stdin.flush()
            reply = self._reply()
        except (OSError, ValueError, pa.ArrowInvalid) as error:
            raise self._failure(request["do"], error) from error
        if reply.error is not None:
            raise self._failure(request["do"], reply.error)
        return reply

    def _reply(self) -> ProgramReply:
        assert self._process.stdout
        line = self._process.stdout.readline()
        return msgspec.json.decode(line, type=ProgramReply) if line else ProgramReply(error="the program has ended")

    def _failure(self, request: object, problem: object) -> DeltamarkError:
        remedy = "harness/engines/external.py describes the protocol"
        return DeltamarkError(f"{self._engine} failed to {request}", problem, remedy)


def _columns(name: str, columns: tuple[str, ...]) -> list[tuple[str, str]]:
    table = relation(name)
    return [(table.prefix + column, ARROW_NAMES[table.column(column).kind]) for column in columns]


def command(engine: str) -> list[str]:
    """Return the command that starts an engine; raise a DeltamarkError if its program does not exist."""
    words = shlex.split(engine.removeprefix(ExternalEngine.prefix))
    if words and words[0].endswith(".py") and Path(words[0]).exists():
        return [sys.executable, *words]
    if words and shutil.which(words[0]):
        return words
    raise DeltamarkError("no such program", engine, "give an executable, or an existing .py file")
