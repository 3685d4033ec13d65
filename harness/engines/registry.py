"""The engines by name. Other modules look up an engine's capabilities, and never compare its name."""

from __future__ import annotations

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import Workload
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.engines.base import Capabilities, Engine, Sink, StreamEngine
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.embedded import EmbeddedEngine
from deltamark.harness.engines.external import ExternalEngine
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.measure.cell import Cell

STREAM_ENGINES: dict[str, type[StreamEngine]] = {each.name: each for each in (EmbeddedEngine, SparkEngine)}
ENGINES: dict[str, type[Engine]] = {**STREAM_ENGINES, **{each.name: each for each in (DuckDBEngine, SparkSqlEngine)}}

DEFAULT = EmbeddedEngine.name
DEFAULT_SWEEP = (EmbeddedEngine.name, DuckDBEngine.name)
"""The engines that a sweep measures by default."""


def engine_class(name: str) -> type[Engine]:
    """Return the class of an engine."""
    if name.startswith(ExternalEngine.prefix):
        return ExternalEngine
    if name not in ENGINES:
        raise unknown("engine", name, [*ENGINES, ExternalEngine.name])
    return ENGINES[name]


def capabilities(name: str) -> Capabilities:
    return engine_class(name).capabilities


def known_engine(name: str) -> str:
    """Return the name of an engine that can be opened, or raise a DeltamarkError."""
    engine_class(name).check_name(name)
    return name


def known_stream_engine(name: str) -> str:
    """Return the name of an engine with a change stream, or raise a DeltamarkError."""
    if name not in STREAM_ENGINES:
        raise unknown("engine", name, STREAM_ENGINES)
    return name


def open_engine(cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> Engine:
    """Open the engine of a cell, ready for the first batch. sink: receives all changes, for a checked run."""
    selected = engine_class(cell.engine)
    limit = selected.capabilities.max_workers
    if limit is not None and not 1 <= cell.workers <= limit:
        raise DeltamarkError("no such number of workers", cell.workers, f"give from 1 to {limit}")
    return selected.open(cell, dataset, work, sink)


def open_stream(cell: Cell, dataset: Dataset, work: Workload) -> StreamEngine:
    """Open the engine of a cell to read its change stream."""
    return STREAM_ENGINES[known_stream_engine(cell.engine)](cell, dataset, work)
