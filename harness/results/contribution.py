"""The rules for records that others contribute. Their files are untrusted: no text in them names a file or a program.

A record is compared with the facts that this project has without measuring: the names of its cells, the data and the
change streams of the committed records, the commits of the repository, and the rule of plausible times. A false time
within these bounds is not found, so the command `validate` measures some cells again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark, included
from deltamark.harness.benchmarks.cell import THROUGHPUT, Cell
from deltamark.harness.engines.peers import PEERS
from deltamark.harness.engines.registry import BUILT_IN
from deltamark.harness.results import store
from deltamark.harness.results.commits import KnownCommit
from deltamark.harness.results.plausibility import MAX_RATE, doubt_of
from deltamark.harness.results.record import MEASURING, PROJECT, SPREAD, VERSION, Origin, Record, blank_record
from deltamark.harness.system.machine import Header

MAX_BYTES = 20_000_000
"""The size of a contributed file, at most: about ten times that of the reference records."""

CLOCK_S = 3600.0
"""The seconds by which the clock of another machine may be ahead; not measured."""

COMMAND = re.compile(r"python -m harness bench( [\w=.,:/-]+)*", re.ASCII)
"""The command of a session, which readers may copy: no word of it means anything else to a shell."""

Place = tuple[str, ...]


def directories(path: Path) -> list[Path]:
    """Return the directories of records at a path: the path itself, or those in it."""
    path = path.parent if path.name == store.RECORDS else path
    below = sorted(file.parent for file in path.glob(f"*/{store.RECORDS}"))
    return [path] if (path / store.RECORDS).exists() else below


def read(path: Path) -> list[bytes]:
    """Read the lines of a contributed file, which must not be a link."""
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        raise DeltamarkError("not a file", path, "add the file itself")
    if path.stat().st_size > MAX_BYTES:
        raise DeltamarkError("a file that is too large", path, f"contribute at most {MAX_BYTES / 1e6:.0f} MB")
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        raise DeltamarkError("an incomplete last line", path, "end the file with a line break")
    return store.complete_lines(content)


@dataclass(frozen=True)
class Facts:
    """The facts with which records are compared. now: seconds since 1970."""

    data: Mapping[Place, AbstractSet[str]]
    """The digests of the data of each benchmark and scale factor."""
    streams: Mapping[Place, AbstractSet[str]]
    """The digests of the change streams of each query, workload and L."""
    tuples: Mapping[Place, AbstractSet[int]]
    """The tuples of each query and workload, if all batches were timed."""
    commits: Mapping[str, KnownCommit]
    now: float


def facts(committed: Iterable[Record], commits: Mapping[str, KnownCommit], now: float) -> Facts:
    """Collect the facts of committed records."""
    data: dict[Place, set[str]] = defaultdict(set)
    streams: dict[Place, set[str]] = defaultdict(set)
    tuples: dict[Place, set[int]] = defaultdict(set)
    for record in committed:
        if record.suite == THROUGHPUT and record.has_numbers:
            data[record.benchmark, record.sf].add(record.data)
            if record.digest:
                streams[*_stream(record), str(record.logical)].add(record.digest)
            if record.fully_timed:
                tuples[_stream(record)].add(record.tuples)
    return Facts(data, streams, tuples, commits, now)


def _stream(record: Record) -> Place:
    return record.benchmark, record.sf, record.query, record.workload


def faults(record: Record, sessions: Mapping[str, Header], known: Facts) -> list[str]:
    """Return the reasons for which a record is not accepted; none if it is valid."""
    try:
        named = list(_names(record))
        return named or [*_identity(record, sessions, known), *_numbers(record), *_work(record, known)]
    except (DeltamarkError, ValueError) as error:
        return [str(error)]


def _names(record: Record) -> Iterator[str]:
    """Yield the names that are not those of this project. They could be paths, so they are looked up before any use."""
    if (record.version, record.measuring) != (VERSION, MEASURING):
        yield "a record of another version"
    if record.suite != THROUGHPUT:
        yield "not a record of the suite tpch"
    if record.repository != PROJECT:
        yield "a record of another repository"
    if record.engine not in (*BUILT_IN, *PEERS):
        yield "neither a built-in engine nor a peer"
    if record.benchmark not in included() or record.query not in benchmark(record.benchmark).queries:
        yield "not a query of this project"


def _identity(record: Record, sessions: Mapping[str, Header], known: Facts) -> Iterator[str]:
    """Compare the name, the key, the session and the commit of a record with its parameters."""
    home = benchmark(record.benchmark)
    cell = Cell(
        record.query, record.sf, known_workload(record.workload), record.logical, record.physical,
        home.query(record.query).known(record.variant), record.workers, record.engine, benchmark=record.benchmark,
        sample=record.sample, data=record.data,
    )  # fmt: skip
    origin = Origin(record.code, record.versions, record.commit, record.session, record.repository)
    blank = blank_record(cell, origin, record.external)
    if (record.external is None) != (record.engine in BUILT_IN):
        yield "the description of the engine does not belong to it"
    if blank.params != record.params:
        yield "parameters that no cell has"
    if blank.cell != record.cell or blank.key != record.key:
        yield "a name or a key that is not that of its parameters, code and data"
    header = sessions.get(record.session)
    if header is None:
        yield f"no header of its session in {store.SESSIONS}"
    elif not COMMAND.fullmatch(header["argv"]):
        yield "a session of another command than bench"
    commit = known.commits.get(record.commit)
    if commit is None:
        yield "not a commit of this repository, or one with edits"
    elif not commit.time <= record.finished_s <= known.now + CLOCK_S:
        yield "measured before its commit, or in the future"


def _numbers(record: Record) -> Iterator[str]:
    """Compare the numbers of a record with each other. Refusals and cells that take too long have none."""
    if record.status in ("refused", "timeout"):
        return
    if not record.has_numbers or not record.verified:
        yield "no time of a right answer"
        return
    latency = [record.latency[name] for name in SPREAD]
    if sorted(latency) != latency or latency[-1] > record.best:
        yield "latencies that contradict each other or the time of the run"
    if record.rate > MAX_RATE * record.workers:
        yield "a rate that no processor has"
    elif doubt := doubt_of(record):
        yield f"its time is not plausible: {doubt}"


def _work(record: Record, known: Facts) -> Iterator[str]:
    """Compare the data and the change stream of a record with those of the committed ones."""
    data = known.data.get((record.benchmark, record.sf))
    if data is None:
        yield "no committed record has data of this scale factor"
    elif record.data not in data:
        yield "not the data of the committed records"
    place = (*_stream(record), str(record.logical))
    if record.digest and record.digest not in known.streams.get(place, {record.digest}):
        yield "not the known change stream"
    if record.fully_timed and record.tuples not in known.tuples.get(_stream(record), {record.tuples}):
        yield "not the tuples of the committed records"
