"""The protocol of an engine: the calls that the harness makes, and the capabilities that decide between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

import pyarrow as pa
from msgspec import Struct, structs

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.sql.problems import SeveralSqlError, SqlError
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, Feed
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.system.resources import MemoryUse

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection

Output = Literal["stream", "batches", "answers"]

Inputs = Mapping[str, tuple[str, ...]]
"""The relations that an engine is fed, each with the columns that the engine reads."""

Sink = Callable[[Batch | pa.Table], None]
"""A receiver of changes: `Batch` objects from an engine with a stream, Arrow tables from one with batches."""

Value = int | Decimal | date | time | timedelta | str | float | None
Row = tuple[Value, ...]

Prepared = TypeVar("Prepared")

TOLERANCE = 1e-14
"""The relative error allowed between a double and DuckDB's. Both round the same exact quotient."""

DOUBLE_TOLERANCE = 1e-9
"""The relative error allowed between a double of an engine of others and DuckDB's: sums of doubles are rounded."""


PROGRAM = "exec:"
"""The beginning of the name of an engine that is a program, or of what follows its alias."""


def short_name(engine: str) -> str:
    """Return the name of an engine without its program, if it has an alias."""
    alias, equals, program = engine.partition("=")
    return alias if equals and program.startswith(PROGRAM) else engine


def first_line(error: DeltamarkError) -> str:
    """Return the first line of what an error found."""
    return str(error.actual).partition("\n")[0]


class RefusedError(DeltamarkError):
    """A query that an engine does not support, as the engine says."""


REFUSALS = (RefusedError, SqlError, SeveralSqlError)
"""The errors that say that an engine does not support a query: of programs, and of our SQL."""


class EngineInfo(Struct, frozen=True):
    """The description that an external engine gave of itself when it was measured."""

    name: str
    """Its name and version."""
    digest: str
    """The digest of its program."""
    output: Output
    maintains: bool = True
    session: bool = False

    @property
    def parameters(self) -> dict[str, bool | int | str]:
        """The parameters of records that name the engine."""
        return {f"engine_{name}": value for name, value in structs.asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The properties of an engine that decide how it is measured and checked."""

    output: Output
    """`stream`: changes at logical times. `batches`: changes of each batch as a whole. `answers`: whole answers."""
    max_workers: int | None = None
    """None: no limit."""
    reads_input: bool = False
    """The engine reads the workload by itself, in batches of one size, and stores its changes until the end."""
    recomputes: bool = False
    """The engine runs the query again after each batch."""
    analyzes: bool = False
    """The engine can measure single operators, on one worker."""
    has_session: bool = False
    """The engine runs in a session, which takes longer to start than most cells take to run."""
    has_variants: bool = False
    """The engine runs our plans, of which a query may have several."""
    has_master: bool = False
    """The session of the engine is on a Spark master, and its workers are shards."""
    checks_in_pairs: bool = False
    """Two cells with one worker each can be checked at the same time, since each keeps one core busy."""
    resumes: bool = False
    """The engine resumes an interrupted stream from a checkpoint directory."""
    snapshots: bool = False
    """The engine is a process that writes snapshots of its state, and another process restores them."""
    attaches: bool = False
    """The engine takes further queries over rows that were fed."""
    tolerance: float = TOLERANCE
    """The relative error allowed between a double of its answer and DuckDB's."""

    @property
    def has_stream(self) -> bool:
        """Return whether the output can be digested and compared between engines."""
        return self.output == "stream"

    @property
    def checked_while_timed(self) -> bool:
        """Return whether the timed runs are checked themselves, instead of an untimed run before them."""
        return self.reads_input or self.recomputes


SEVERAL_ROUNDS = 100_000
MAX_SEVERAL = 1000
"""The rounds and batches that an engine takes at a time, at most, if it takes several. Neither number is tuned."""


def batches_at_a_time(rounds: int) -> int:
    """Return the number of batches of some rounds that are taken at a time."""
    return max(min(MAX_SEVERAL, SEVERAL_ROUNDS // rounds), 1)


class Engine(ABC):
    """An engine that has opened the query of a cell, at a position in the cell's workload.

    The harness alternates `take`, which makes a batch ready, and `apply` (timed) or `load` (not timed).
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    feed: Feed
    """The position in the workload."""
    own_seconds: float | None = None
    """The time of the last `apply` by the clock of the engine, if it has one; it replaces that of the harness."""
    untimed_seconds: float = 0.0
    """The time for which the harness waited in the last `take` until the engine had the batch ready."""
    memory: MemoryUse | None = None
    """The memory of the process that the engine is, since the query was opened; None: the engine runs in this one."""
    recomputes_query: bool = False
    """The engine runs this query again after each batch, although it maintains others."""

    @abstractmethod
    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None: ...

    @classmethod
    def open(cls, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> Engine:
        """Open an engine that is ready to take the first batch. sink: receives all changes, for a checked run."""
        return cls(cell, dataset, work, sink)

    @property
    def takes_several(self) -> bool:
        """Whether the engine takes several batches ahead, and applies them one after another by its own clock."""
        return False

    @abstractmethod
    def take(self, physical: int) -> int:
        """Make the next `physical` logical batches ready; return their number of rows. Skip `apply` if it is 0."""

    @abstractmethod
    def apply(self) -> int:
        """Apply the taken batch; return the number of changes of the answer, or of rows of a new answer."""

    def load(self) -> None:
        """Apply the taken batch; the output may be skipped."""
        self.apply()

    def take_several(self, physical: int, batches: int) -> list[int]:
        """Make batches of `physical` logical batches ready; return the number of rows of each batch that has rows."""
        raise NotImplementedError

    def apply_several(self) -> list[tuple[int, float]]:
        """Apply the taken batches one after another; return the number of changes and the seconds of each."""
        raise NotImplementedError

    def finish(self) -> None:  # noqa: B027 (most store no changes)
        """Pass stored changes to the sink, between two batches or after the last."""

    def state_rows(self) -> int:
        """Return the number of rows that the engine keeps; 0 if it does not report them."""
        return 0

    def stored_bytes(self) -> int | None:
        """Return the bytes of the state if the engine counts them; None: the growth of its process counts."""
        return None

    @abstractmethod
    def close(self) -> None: ...


class FedEngine(Engine, Generic[Prepared]):
    """An engine that the harness feeds: it converts each batch to its own input format before the clock starts."""

    batch: Prepared

    def take(self, physical: int) -> int:
        deltas = self.feed.take(physical)
        if deltas:
            self.batch = self.prepare(deltas)
        return sum(len(delta.time) for delta in deltas)

    @abstractmethod
    def prepare(self, deltas: list[Delta]) -> Prepared:
        """Convert a batch, which is not empty, to the input of `apply`."""


class StreamEngine(Engine):
    """An engine whose output is a stream of changes at logical times."""

    schema: Schema
    """The columns of the answer, or of its differences in a variant that emits those."""

    @abstractmethod
    def changes(self, rounds: int) -> Iterator[Batch]:
        """Run the workload up to a number of rounds; yield all changes in order of time. Each batch has whole times."""


class PlanEngine(StreamEngine):
    """An engine that runs the plans of this project."""

    @staticmethod
    @abstractmethod
    def explain(plan: Collection, workers: int) -> str:
        """Describe the program of a plan, without running it."""

    def analyze(self, rounds: int) -> str:
        """Run the workload up to a number of rounds; describe the program with the rows and time of its operators."""
        raise NotImplementedError


class AnswerEngine(Engine):
    """An engine that can return its whole answer between two batches."""

    @abstractmethod
    def answer(self) -> list[Row]: ...


class AttachingEngine(Engine):
    """An engine that takes more queries over the rows that were fed. All pass their changes on in `finish`."""

    schemas: dict[str, Schema]
    """The columns of exact changes, by query; a query without them has changes in tables."""

    @classmethod
    @abstractmethod
    def beside(
        cls, cell: Cell, coming: Sequence[Cell], dataset: Dataset, work: Workload, sink: Sink | None
    ) -> AttachingEngine:
        """Open a query, beside which those of other cells will be opened later. sink: receives its changes."""

    @classmethod
    def together(
        cls, cells: Sequence[Cell], dataset: Dataset, work: Workload, sinks: Mapping[str, Sink]
    ) -> AttachingEngine:
        """Open several queries before the first batch. sinks: receive the changes of each query; empty: none does."""
        first, *others = cells
        engine = cls.beside(first, others, dataset, work, sinks.get(first.query))
        try:
            for cell in others:
                engine.attach(cell, sinks.get(cell.query))
        except BaseException:
            engine.close()
            raise
        return engine

    def expect(self, cell: Cell) -> None:
        """Make ready what the harness contributes to an attachment, which is not timed."""

    @abstractmethod
    def attach(self, cell: Cell, sink: Sink | None) -> float:
        """Open one of the queries that were announced; return the seconds until its first answer is complete.

        sink: receives its changes, the first of which are the answer to the rows so far.
        """


class RecomputingEngine(FedEngine[Prepared], AnswerEngine):
    """An engine without incremental maintenance: it stores the rows, and runs the query again after each batch."""

    def __init__(self, cell: Cell, work: Workload, inputs: Inputs) -> None:
        self.feed = feed_of(cell, work, inputs)
        self._live = 0

    def apply(self) -> int:
        self.load()
        return len(self.answer())

    def state_rows(self) -> int:
        return self._live


def feed_of(cell: Cell, work: Workload, inputs: Inputs, until: int | None = None) -> Feed:
    """Open the workload of a cell for the inputs of an engine."""
    return Feed(work, inputs, logical=cell.logical, until=until)
