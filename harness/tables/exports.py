"""Exports: the measurements of a machine in formats that other tools read, one file a format; asv has a directory.

The time is that of the fastest run, as in the tables of this project: other programs on the machine can only add to a
time. A record without numbers, of a cell that failed, was wrong or took too long, never becomes a number of an export.
If the last measurement of a cell failed, an earlier number does not stand in for it. The relations, for SQL:

- `exported`: the last record of each cell; `left_out` is the reason why it has no place in an export, or empty.
- `metrics`: their numbers for other benchmark tools, each with the values of the timed runs unless only one was taken.
  The least and the most are the fastest and the slowest of these, not a confidence interval.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from deltamark.harness.results.commits import KnownCommit, branches, known_commits, reachable
from deltamark.harness.results.record import MEASURING, SPREAD, Record
from deltamark.harness.system.machine import Facts
from deltamark.harness.tables.relation import Relations, listed


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


PYTHON = r"\bpython (\S+?)(,|$)"
COUNTS = ("tuples", "changes", "batches", "state_rows", "state_bytes", "peak_bytes")

VIEWS = f"""
CREATE TABLE exported AS SELECT *, list_min(timed) AS best,
        coalesce(nullif(regexp_extract(versions, '{PYTHON}', 1), ''), 'unknown') AS python,
        CASE WHEN status <> 'ok' THEN status WHEN measuring <> {MEASURING} THEN 'measured in another way'
            WHEN timed IS NULL THEN 'not timed' ELSE '' END AS left_out,
        {", ".join(f"figure_of(figures, '{name}')::BIGINT AS {name}" for name in COUNTS)}
    FROM (SELECT *, figures['seconds'] AS timed FROM given);
CREATE VIEW metrics AS SELECT * FROM (SELECT *, unnest([
        {{'name': 'seconds', 'type': 'time', 'unit': 'seconds', 'value': best, 'runs': timed}},
        {{'name': 'latency-p99-seconds', 'type': 'track', 'unit': 'seconds', 'value': list_min(figures['p99']),
            'runs': NULL}},
        {{'name': 'state-bytes', 'type': 'memory', 'unit': 'bytes', 'value': state_bytes, 'runs': NULL}},
        {{'name': 'peak-bytes', 'type': 'peakmemory', 'unit': 'bytes', 'value': peak_bytes, 'runs': NULL}}]) AS metric,
        unnest(range(4)) AS number FROM exported)
    WHERE left_out = '' AND (metric.unit = 'seconds' OR metric.value > 0);
"""


def exported(source: ExportSource, more: str = "") -> tuple[Relations, Mapping[str, int]]:
    """Return the relations of the last record of each cell, and count those that are left out by reason.

    more: other columns within whose values a record is the last one.
    """
    last = f"DELETE FROM exported WHERE id NOT IN (SELECT max(id) FROM exported GROUP BY cell_name{more})"
    db = Relations([source.records], f"{VIEWS}{last}")
    return db, dict(db.rows("SELECT left_out, count(*) FROM exported WHERE left_out <> '' GROUP BY left_out"))


def json_bytes(value: object) -> bytes:
    """Encode a value as indented JSON. Numbers keep all of their digits."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


class Metric(NamedTuple):
    """A number of a record for other benchmark tools. runs: the values of the timed runs, if there are several."""

    cell: str
    name: str
    type: str
    unit: str
    value: float
    runs: list[float] | None
    more: Any
    """More columns, which a format needs."""


def metrics(db: Relations, more: str = "NULL") -> list[Metric]:
    """Return the metrics of all cells in order. more: the SQL of more columns. Bytes are whole numbers."""
    rows = db.rows(f"""
        SELECT cell_name, metric.name, metric.type, metric.unit, metric.value, metric.runs, {more} FROM metrics
        ORDER BY cell_name, id, number""")
    found = map(Metric._make, rows)
    return [each._replace(value=int(each.value)) if each.unit == "bytes" else each for each in found]


def _encoded(content: bytes | Mapping[str, bytes], db: Relations, left_out: Mapping[str, int]) -> Encoded:
    ((cells,),) = db.rows("SELECT count(*) FROM exported WHERE left_out = ''")
    return Encoded(content, cells, left_out)


def github_action_benchmark(source: ExportSource) -> Encoded:
    """Encode for the tool `customSmallerIsBetter` of github-action-benchmark: a list of entries, one for each chart.

    https://github.com/benchmark-action/github-action-benchmark#examples describes it. `range` is free text there.
    """
    db, left_out = exported(source)
    extra = """[
        format('fastest of {} runs', len(timed)), format('{} tuples in {} batches', tuples, batches),
        'verified by ' || coalesce(nullif(verified, ''), 'nothing'),
        'commit ' || coalesce(nullif(commit, ''), 'unknown')]"""
    return _encoded(json_bytes(list(map(_chart, metrics(db, extra)))), db, left_out)


def _chart(metric: Metric) -> dict[str, str | float]:
    return {
        "name": f"{metric.cell} {metric.name}", "unit": metric.unit, "value": metric.value,
        **({"range": f"{min(metric.runs)} to {max(metric.runs)}"} if metric.runs else {}),
        "extra": "\n".join(metric.more),
    }  # fmt: skip


def bencher(source: ExportSource) -> Encoded:
    """Encode in the Bencher Metric Format: an object of benchmarks, each an object of measures.

    https://bencher.dev/docs/reference/bencher-metric-format describes it. The built-in measures of Bencher have other
    units (`latency` is in nanoseconds), so the measures here are of our own, and their names end in the unit.
    """
    db, left_out = exported(source)
    benchmarks: dict[str, dict[str, object]] = defaultdict(dict)
    for metric in metrics(db):
        bounds = {"lower_value": min(metric.runs), "upper_value": max(metric.runs)} if metric.runs else {}
        benchmarks[metric.cell][metric.name] = {"value": metric.value, **bounds}
    return _encoded(json_bytes(benchmarks), db, left_out)


FLAT = f"""
SELECT suite, cell_name AS cell, query, variant, is_default, sf::DOUBLE AS sf, workload, engine, engine_version,
    engine_digest, engine_output, figure_of(figures, 'recomputed') > 0 AS recomputed,
    logical, physical, workers, sample, figure_of(figures, 'sampled') = 0 AS fully_timed, requested_runs,
    len(timed) AS runs, best AS seconds, list_median(timed) AS seconds_median, list_max(timed) AS seconds_max,
    {", ".join(f"of_fastest(figures, '{name}') AS {name}_seconds" for name in ("cpu", "cut", "outside", "untimed"))},
    {", ".join(f"of_fastest(figures, '{name}') AS {name}_seconds" for name in ("timed_cpu", "untimed_cpu"))},
    doubt, tuples, changes, batches, tuples / best AS tuples_per_second,
    {", ".join(f"list_min(figures['{name}']) AS latency_{name}_seconds" for name in SPREAD)},
    {", ".join(f"nullif({name}, 0) AS {name}" for name in ("state_rows", "state_bytes", "peak_bytes"))},
    nullif(figure_of(figures, 'oracle_seconds'), 0) AS oracle_seconds, nullif(control, 0) AS control_seconds,
    nullif(elapsed, 0) AS elapsed_seconds, nullif(time_limit, 0) AS limit_seconds,
    verified, digest, data, code, versions, commit, repository, session, finished_at, measuring, key
FROM exported WHERE left_out = '' ORDER BY cell_name, id"""
"""The flat table: times are in seconds and sizes in bytes, and the names of the columns say so. Of a figure with an
entry per timed run it has that of the fastest run. An unknown number is null, not 0.
"""


def csv(source: ExportSource) -> Encoded:
    """Encode the flat table as CSV: a header, commas, and nothing between them for an unknown value."""
    return _written(source, pa.csv.write_csv)


def parquet(source: ExportSource) -> Encoded:
    """Encode the flat table as Parquet."""
    return _written(source, pa.parquet.write_table)


def _written(source: ExportSource, write: Callable[[pa.Table, pa.NativeFile], None]) -> Encoded:
    db, left_out = exported(source)
    output = pa.BufferOutputStream()
    write(db.arrow(FLAT).combine_chunks(), output)
    return _encoded(output.getvalue().to_pybytes(), db, left_out)


CONFIGURATION_VERSION, MACHINE_VERSION, BENCHMARKS_VERSION, RESULTS_VERSION = 1, 1, 2, 2

PARAMETER = "cell"
RESULT_COLUMNS = ("result", "params", "version", "samples")
ARCHITECTURE = r"x86_64|aarch64|arm\w*|ppc64\w*|riscv64|s390x"

OUTSIDE = "of no commit of the repository"
"""The reason to leave out a record whose commit no branch of the repository contains."""


def asv(source: ExportSource) -> Encoded:
    """Encode the last record of each cell at each commit with each version of Python."""
    db, left_out = exported(source, ", commit, python")
    known, in_branches = known_commits(source.repository, db.commits), reachable(source.repository)
    names = [name for name, commit in known.items() if commit.sha in in_branches]
    db.rows(
        f"""UPDATE exported SET left_out = '{OUTSIDE}'
            WHERE left_out = '' AND NOT coalesce(commit IN {listed(names)}, false)"""
    )
    ((outside,),) = db.rows(f"SELECT count(*) FROM exported WHERE left_out = '{OUTSIDE}'")
    by_commit: dict[tuple[KnownCommit, str], list[Metric]] = defaultdict(list)
    for metric in metrics(db, "[commit, python, suite, workload, query, variant]"):
        by_commit[known[metric.more[0]], metric.more[1]].append(metric)
    machine = _machine(source)
    files: dict[str, object] = {
        "asv.conf.json": _configuration(source.repository, {commit for commit, _ in by_commit}),
        "results/benchmarks.json": _benchmarks(chain.from_iterable(by_commit.values())),
        f"results/{source.machine}/machine.json": {**machine, "version": MACHINE_VERSION},
    }
    for (commit, python), of_commit in sorted(by_commit.items()):
        name = f"results/{source.machine}/{commit.sha[:8]}-py{python}.json"
        files[name] = _results_file(commit, python, machine, _results(of_commit))
    content = {name: json_bytes(value) for name, value in files.items()}
    return _encoded(content, db, {**left_out, OUTSIDE: outside} if outside else left_out)


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


def _results(metrics: Iterable[Metric]) -> dict[str, dict[str, Metric]]:
    """Return the metrics by benchmark and value of the parameter. Those of a benchmark are sorted by cell."""
    found: dict[str, dict[str, Metric]] = defaultdict(dict)
    for metric in sorted(metrics, key=lambda metric: metric.cell):
        of_benchmark = metric.more[2:]
        value = repr(metric.cell.removeprefix(" ".join(of_benchmark)).strip())
        found[_name(*of_benchmark, metric.name)][value] = metric
    return dict(sorted(found.items()))


def _name(*words: str) -> str:
    """Return the name of a benchmark: words with points between them, which asv shows as a tree."""
    return ".".join(re.sub(r"[^\w:-]+", "_", word) for word in words)


def _benchmarks(metrics: Iterable[Metric]) -> dict[str, object]:
    """Describe each benchmark, with the cells of all commits."""
    described: dict[str, object] = {name: _benchmark(name, results) for name, results in _results(metrics).items()}
    return {**described, "version": BENCHMARKS_VERSION}


def _benchmark(name: str, results: Mapping[str, Metric]) -> dict[str, object]:
    metric = next(iter(results.values()))
    return {
        "name": name, "type": metric.type, "unit": metric.unit, "version": str(MEASURING),
        "code": f"{metric.name} of {name.rpartition('.')[0]}, measured by deltamark",
        "param_names": [PARAMETER], "params": [list(results)],
    }  # fmt: skip


def _results_file(
    commit: KnownCommit, python: str, machine: Mapping[str, str], results: Mapping[str, Mapping[str, Metric]]
) -> dict[str, object]:
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


class ExportFormat(NamedTuple):
    """A format, and the default name of its file or directory beside the records."""

    target: str
    encode: Callable[[ExportSource], Encoded]


EXPORTS: Mapping[str, ExportFormat] = {
    "github-action-benchmark": ExportFormat("github-action-benchmark.json", github_action_benchmark),
    "bencher": ExportFormat("bencher.json", bencher),
    "asv": ExportFormat("asv", asv),
    "csv": ExportFormat("cells.csv", csv),
    "parquet": ExportFormat("cells.parquet", parquet),
}
