"""Exports: the measurements of a machine in formats that other tools read, one file a format; asv has a directory.

The time is that of the fastest run, as in the tables of this project: other programs on the machine can only add to a
time. A record without numbers, of a cell that failed, was wrong or took too long, never becomes a number of an export.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from deltamark.harness.measure.stats import median
from deltamark.harness.results.commits import KnownCommit, branches, known_commits, reachable
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import MEASURING, SPREAD, Record, latest
from deltamark.harness.system.machine import Facts

Unit = Literal["seconds", "bytes"]


@dataclass(frozen=True)
class ExportSource:
    """All records of queries of a machine, in the order of measurement, and the facts behind them."""

    records: list[Record]
    machine: str
    """The name of the machine's directory."""
    facts: Facts | None
    """The machine as its last session describes it."""
    repository: Path
    """The git repository whose commits the records name."""


@dataclass(frozen=True)
class Encoded:
    """An export in memory. `left_out` counts the records without a place in it, by reason."""

    content: bytes | Mapping[str, bytes]
    """The content of a file, or of the files of a directory by their relative paths."""
    cells: int
    left_out: Mapping[str, int]


class ExportFormat(NamedTuple):
    """A format, and the default name of its file or directory beside the records."""

    target: str
    encode: Callable[[ExportSource], Encoded]


def last_of_cells(records: Iterable[Record]) -> tuple[list[Record], Counter[str]]:
    """Return the last record of each cell, sorted by cell, and count those that were left out by reason.

    If the last measurement of a cell failed, an earlier number does not stand in for it.
    """
    return with_numbers(latest(records))


def with_numbers(records: Iterable[Record]) -> tuple[list[Record], Counter[str]]:
    """Return the records with numbers, sorted by cell, and count the others by reason."""
    kept, left_out = [], Counter[str]()
    for record in records:
        if reason := _reason(record):
            left_out[reason] += 1
        else:
            kept.append(record)
    return sorted(kept, key=lambda record: record.cell), left_out


def _reason(record: Record) -> str:
    if record.status == "ok" and record.measuring != MEASURING:
        return "measured in another way"
    return "" if record.has_numbers else record.status if record.status != "ok" else "not timed"


def json_bytes(value: object) -> bytes:
    """Encode a value as indented JSON. Numbers keep all of their digits."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


@dataclass(frozen=True)
class Metric:
    """A number of a record for other benchmark tools.

    `runs` has a value per timed run, or none if only one number was taken. The least and the most are the fastest and
    the slowest of the timed runs, not a confidence interval.
    """

    name: str
    unit: Unit
    value: float
    runs: tuple[float, ...] = ()


def metrics(record: Record) -> Iterator[Metric]:
    """Return the metrics of a record with numbers. An engine that does not report its memory has fewer."""
    yield Metric("seconds", "seconds", record.best, tuple(record.seconds))
    yield Metric("latency-p99-seconds", "seconds", record.latency["p99"])
    if record.state_bytes:
        yield Metric("state-bytes", "bytes", record.state_bytes)
    if record.peak_bytes:
        yield Metric("peak-bytes", "bytes", record.peak_bytes)


def github_action_benchmark(source: ExportSource) -> Encoded:
    """Encode for the tool `customSmallerIsBetter` of github-action-benchmark: a list of entries, one for each chart.

    https://github.com/benchmark-action/github-action-benchmark#examples describes it. `range` is free text there.
    """
    records, left_out = last_of_cells(source.records)
    entries = [_chart(record, metric) for record in records for metric in metrics(record)]
    return Encoded(json_bytes(entries), len(records), left_out)


def _chart(record: Record, metric: Metric) -> dict[str, str | float]:
    extra = (
        f"fastest of {len(record.seconds)} runs", f"{record.tuples} tuples in {record.batches} batches",
        f"verified by {record.verified or 'nothing'}", f"commit {record.commit or 'unknown'}",
    )  # fmt: skip
    return {
        "name": f"{record.cell} {metric.name}", "unit": metric.unit, "value": metric.value,
        **({"range": f"{min(metric.runs)} to {max(metric.runs)}"} if metric.runs else {}), "extra": "\n".join(extra),
    }  # fmt: skip


def bencher(source: ExportSource) -> Encoded:
    """Encode in the Bencher Metric Format: an object of benchmarks, each an object of measures.

    https://bencher.dev/docs/reference/bencher-metric-format describes it. The built-in measures of Bencher have other
    units (`latency` is in nanoseconds), so the measures here are of our own, and their names end in the unit.
    """
    records, left_out = last_of_cells(source.records)
    benchmarks = {record.cell: {metric.name: _measure(metric) for metric in metrics(record)} for record in records}
    return Encoded(json_bytes(benchmarks), len(records), left_out)


def _measure(metric: Metric) -> dict[str, float]:
    if not metric.runs:
        return {"value": metric.value}
    return {"value": metric.value, "lower_value": min(metric.runs), "upper_value": max(metric.runs)}


TEXT, BOOL, COUNT, NUMBER = pa.string(), pa.bool_(), pa.int64(), pa.float64()
COLUMNS: tuple[tuple[pa.DataType, str], ...] = (
    (TEXT, "suite cell query variant"),
    (BOOL, "is_default"),
    (NUMBER, "sf"),
    (TEXT, "workload engine engine_version engine_digest engine_output"),
    (BOOL, "recomputed"),
    (COUNT, "logical physical workers sample"),
    (BOOL, "fully_timed"),
    (COUNT, "requested_runs runs"),
    (NUMBER, "seconds seconds_median seconds_max cpu_seconds cut_seconds outside_seconds untimed_seconds"),
    (NUMBER, "timed_cpu_seconds untimed_cpu_seconds"),
    (TEXT, "doubt"),
    (COUNT, "tuples changes batches"),
    (NUMBER, " ".join(["tuples_per_second", *(f"latency_{name}_seconds" for name in SPREAD)])),
    (COUNT, "state_rows state_bytes peak_bytes"),
    (NUMBER, "oracle_seconds control_seconds elapsed_seconds limit_seconds"),
    (TEXT, "verified digest data code versions commit repository session finished_at"),
    (COUNT, "measuring"),
    (TEXT, "key"),
)
"""The columns of the flat table in their order, by type."""
SCHEMA = pa.schema([(name, kind) for kind, names in COLUMNS for name in names.split()])


def flat_table(source: ExportSource) -> tuple[pa.Table, dict[str, int]]:
    """Return a table with a row for each cell, sorted by cell, and count the records that were left out by reason.

    Times are in seconds and sizes in bytes, and the names of the columns say so. Lists with an entry per timed run
    become the entry of the fastest run; the trace of single batches is left out. An unknown number is null, not 0.
    """
    records, left_out = last_of_cells(source.records)
    return pa.Table.from_pylist(list(map(_row, records)), SCHEMA), left_out


def _row(record: Record) -> dict[str, object]:
    of_runs = ("cpu", "cut", "outside", "untimed", "timed_cpu", "untimed_cpu")
    reported = ("state_rows", "state_bytes", "peak_bytes", "oracle_seconds")
    known = {name: getattr(record, name) or None for name in reported}
    return {
        **{name: getattr(record, name) for name in SCHEMA.names if hasattr(record, name)}, **known, **record.params,
        "sf": float(record.sf), "engine_version": record.params.get("engine_name"),
        "recomputed": bool(record.recomputed), "runs": len(record.seconds), "seconds": record.best,
        "seconds_median": median(record.seconds), "seconds_max": max(record.seconds), "doubt": doubt_of(record),
        "tuples_per_second": record.rate, "control_seconds": record.control or None,
        "elapsed_seconds": record.elapsed or None, "limit_seconds": record.limit or None,
        **{f"{name}_seconds": record.of_fastest(getattr(record, name)) for name in of_runs},
        **{f"latency_{name}_seconds": seconds for name, seconds in record.latency.items()},
    }  # fmt: skip


def csv(source: ExportSource) -> Encoded:
    """Encode the flat table as CSV: a header, commas, and nothing between them for an unknown value."""
    return _written(source, pa.csv.write_csv)


def parquet(source: ExportSource) -> Encoded:
    """Encode the flat table as Parquet."""
    return _written(source, pa.parquet.write_table)


def _written(source: ExportSource, write: Callable[[pa.Table, pa.NativeFile], None]) -> Encoded:
    table, left_out = flat_table(source)
    output = pa.BufferOutputStream()
    write(table, output)
    return Encoded(output.getvalue().to_pybytes(), table.num_rows, left_out)


CONFIGURATION_VERSION, MACHINE_VERSION, BENCHMARKS_VERSION, RESULTS_VERSION = 1, 1, 2, 2

PARAMETER = "cell"
TYPES = {"seconds": "time", "latency-p99-seconds": "track", "state-bytes": "memory", "peak-bytes": "peakmemory"}
"""The type of benchmark of each metric."""

RESULT_COLUMNS = ("result", "params", "version", "samples")
ARCHITECTURE = r"x86_64|aarch64|arm\w*|ppc64\w*|riscv64|s390x"


Results = dict[str, dict[str, Metric]]
"""The metrics by benchmark and value of the parameter."""


def asv(source: ExportSource) -> Encoded:
    by_commit, left_out = _by_commit(source)
    machine = _machine(source)
    files: dict[str, object] = {
        "asv.conf.json": _configuration(source.repository, {commit for commit, _ in by_commit}),
        "results/benchmarks.json": _benchmarks(by_commit.values()),
        f"results/{source.machine}/machine.json": {**machine, "version": MACHINE_VERSION},
    }
    for (commit, python), records in by_commit.items():
        name = f"results/{source.machine}/{commit.sha[:8]}-py{python}.json"
        files[name] = _results_file(commit, python, machine, _results(records))
    cells = sum(map(len, by_commit.values()))
    return Encoded({name: json_bytes(value) for name, value in files.items()}, cells, left_out)


def _by_commit(source: ExportSource) -> tuple[dict[tuple[KnownCommit, str], list[Record]], Counter[str]]:
    """Return the last record of each cell at each commit with each version of Python."""
    known, in_branches = known_commits(source.repository, source.records), reachable(source.repository)
    last = {(record.commit, _python(record), record.cell): record for record in source.records}
    records, left_out = with_numbers(last.values())
    found: dict[tuple[KnownCommit, str], list[Record]] = defaultdict(list)
    for record in records:
        commit = known.get(record.commit)
        if commit and commit.sha in in_branches:
            found[commit, _python(record)].append(record)
        else:
            left_out["of no commit of the repository"] += 1
    return dict(sorted(found.items())), left_out


def _python(record: Record) -> str:
    version = re.search(r"\bpython (\S+?)(,|$)", record.versions)
    return version[1] if version else "unknown"


def _configuration(repository: Path, shown: set[KnownCommit]) -> dict[str, object]:
    return {
        "version": CONFIGURATION_VERSION, "project": repository.name, "repo": str(repository),
        "branches": branches(repository, shown), "results_dir": "results", "html_dir": "html",
    }  # fmt: skip


def _machine(source: ExportSource) -> dict[str, str]:
    facts: Facts | None = source.facts
    if facts is None:
        return {"machine": source.machine, "os": "", "arch": "", "cpu": "", "num_cpu": "", "ram": ""}
    architecture = re.search(ARCHITECTURE, facts["system"])
    return {
        "machine": source.machine, "os": facts["system"], "arch": architecture[0] if architecture else "",
        "cpu": facts["cpu"], "num_cpu": str(facts["cores"]), "ram": f"{facts['memory_gb']}GB",
    }  # fmt: skip


def _results(records: Iterable[Record]) -> Results:
    """Return the metrics of records that are sorted by cell."""
    found: Results = defaultdict(dict)
    for record in records:
        words = (record.suite, record.workload, record.query, record.variant)
        value = repr(record.cell.removeprefix(" ".join(words)).strip())
        for metric in metrics(record):
            found[_name(*words, metric.name)][value] = metric
    return dict(sorted(found.items()))


def _name(*words: str) -> str:
    """Return the name of a benchmark: words with points between them, which asv shows as a tree."""
    return ".".join(re.sub(r"[^\w:-]+", "_", word) for word in words)


def _benchmarks(by_commit: Iterable[list[Record]]) -> dict[str, object]:
    """Describe each benchmark, with the cells of all commits."""
    records = sorted(chain.from_iterable(by_commit), key=lambda record: record.cell)
    found = _results(records)
    described: dict[str, object] = {name: _benchmark(name, results) for name, results in found.items()}
    return {**described, "version": BENCHMARKS_VERSION}


def _benchmark(name: str, results: Mapping[str, Metric]) -> dict[str, object]:
    metric = next(iter(results.values()))
    return {
        "name": name, "type": TYPES[metric.name], "unit": metric.unit, "version": str(MEASURING),
        "code": f"{metric.name} of {name.rpartition('.')[0]}, measured by deltamark",
        "param_names": [PARAMETER], "params": [list(results)],
    }  # fmt: skip


def _results_file(commit: KnownCommit, python: str, machine: Mapping[str, str], results: Results) -> dict[str, object]:
    return {
        "version": RESULTS_VERSION, "commit_hash": commit.sha, "date": int(commit.time) * 1000,
        "env_name": f"py{python}", "env_vars": {}, "params": {**machine, "python": python}, "python": python,
        "requirements": {}, "durations": {}, "result_columns": list(RESULT_COLUMNS),
        "results": {name: _result_row(of_name) for name, of_name in results.items()},
    }  # fmt: skip


def _result_row(results: Mapping[str, Metric]) -> list[object]:
    """Return the columns of a benchmark. A trailing column without a value is left out, as asv does."""
    row: list[object] = [[metric.value for metric in results.values()], [list(results)], str(MEASURING)]
    samples = [metric.runs for metric in results.values()]
    return [*row, samples] if all(samples) else row
