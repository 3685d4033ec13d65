"""The engines by name. Other modules look up an engine's capabilities, and never compare its name."""

from __future__ import annotations

import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.base import (
    PROGRAM,
    AttachingEngine,
    Capabilities,
    Engine,
    EngineInfo,
    PlanEngine,
    RefusedError,
    Sink,
    StreamEngine,
    short_name,
)
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.embedded import EmbeddedEngine, EmbeddedQueries
from deltamark.harness.engines.external import named
from deltamark.harness.engines.external.engine import BESIDE, CLASSES
from deltamark.harness.engines.peers import PEERS, peer
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine

PLAN_ENGINES: dict[str, type[PlanEngine]] = {each.name: each for each in (EmbeddedEngine, SparkEngine)}
BUILT_IN: dict[str, type[Engine]] = {**PLAN_ENGINES, **{each.name: each for each in (DuckDBEngine, SparkSqlEngine)}}

ATTACHING: dict[str, type[AttachingEngine]] = {EmbeddedEngine.name: EmbeddedQueries}
"""The classes of built-in engines with several queries."""

DEFAULT = EmbeddedEngine.name
DEFAULT_SWEEP = (EmbeddedEngine.name, DuckDBEngine.name)
"""The engines that a sweep measures by default."""

ALL = "all"


def every_engine() -> tuple[str, ...]:
    """Return the engines of the default sweep, and all peers that are set up."""
    return (*DEFAULT_SWEEP, *(name for name in PEERS if peer(name).is_ready))


def engine_class(name: str) -> type[Engine]:
    """Return the class of an engine."""
    if named.is_external(name):
        return CLASSES[named.greeting(name).output]
    if name not in BUILT_IN:
        raise unknown("engine", name, [*BUILT_IN, *PEERS, f"{PROGRAM}PROGRAM"])
    return BUILT_IN[name]


def capabilities(name: str) -> Capabilities:
    return named.capabilities(name) if named.is_external(name) else engine_class(name).capabilities


def external_info(name: str) -> EngineInfo | None:
    """Return what records keep of an external engine; None for a built-in one."""
    return named.info(name) if named.is_external(name) else None


def known_engine(name: str) -> str:
    """Return the name of an engine that can be opened, or raise a DeltamarkError."""
    if named.is_external(name):
        named.resolved(name)
    else:
        engine_class(name)
    return name


def known_stream_engine(name: str) -> str:
    """Return the name of an engine with a change stream, or raise a DeltamarkError."""
    if not capabilities(known_engine(name)).has_stream:
        raise DeltamarkError(
            "not an engine with a change stream", name, f"give one such as {' or '.join(PLAN_ENGINES)}"
        )
    return name


def open_engine(cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> Engine:
    """Open the engine of a cell, ready for the first batch. sink: receives all changes, for a checked run."""
    limit = capabilities(cell.engine).max_workers
    if limit is not None and not 1 <= cell.workers <= limit:
        raise DeltamarkError("no such number of workers", cell.workers, f"give from 1 to {limit}")
    return engine_class(cell.engine).open(cell, dataset, work, sink)


def attaching(name: str) -> type[AttachingEngine]:
    """Return the class of an engine with several queries, or raise a RefusedError."""
    able = capabilities(name)
    kind = BESIDE[able.output] if named.is_external(name) else ATTACHING.get(name)
    if kind is None or not able.attaches:
        raise RefusedError(f"{short_name(name)} has one query", "it attaches no other", "leave it out")
    return kind


def open_stream(cell: Cell, dataset: Dataset, work: Workload) -> StreamEngine:
    """Open the engine of a cell to read its change stream. A program keeps its changes only if there is a sink."""
    engine = engine_class(known_stream_engine(cell.engine))(cell, dataset, work, _drop)
    assert isinstance(engine, StreamEngine)
    return engine


def _drop(_changes: Batch | pa.Table) -> None:
    """Take the place of the sink until `changes` is called, which has a sink of its own."""
