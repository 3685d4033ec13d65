"""The files of airspeed velocity (asv): a configuration, a list of benchmarks, and a file of results for each commit.

https://asv.readthedocs.io/en/stable/dev.html describes them; results and benchmarks are of version 2. A query over a
workload is a benchmark for each metric. Its only parameter is the rest of the name of a cell: asv shows each missing
combination of several parameters as a failure, and most combinations of engines and batch sizes are not measured.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from deltamark.harness.export.formats import Encoded, ExportSource, Metric, json_bytes, metrics, with_numbers
from deltamark.harness.results.commits import KnownCommit, branches, known_commits, reachable
from deltamark.harness.results.record import MEASURING, Record
from deltamark.harness.system.machine import Facts

CONFIGURATION_VERSION, MACHINE_VERSION, BENCHMARKS_VERSION, RESULTS_VERSION = 1, 1, 2, 2

PARAMETER = "cell"
TYPES = {"seconds": "time", "latency-p99-seconds": "track", "state-bytes": "memory", "peak-bytes": "peakmemory"}
"""The type of benchmark of each metric."""

COLUMNS = ("result", "params", "version", "samples")
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
        "requirements": {}, "durations": {}, "result_columns": list(COLUMNS),
        "results": {name: _row(of_name) for name, of_name in results.items()},
    }  # fmt: skip


def _row(results: Mapping[str, Metric]) -> list[object]:
    """Return the columns of a benchmark. A trailing column without a value is left out, as asv does."""
    row: list[object] = [[metric.value for metric in results.values()], [list(results)], str(MEASURING)]
    samples = [metric.runs for metric in results.values()]
    return [*row, samples] if all(samples) else row
