"""The schemas of other tools, as far as they document them: each function raises unless the text follows one.

Numbers must be finite. No key may be missing, and none may be unknown.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

import msgspec


class GithubEntry(TypedDict):
    """An entry of customSmallerIsBetter.

    Sources: "Examples" in https://github.com/benchmark-action/github-action-benchmark/blob/master/README.md, and the
    interface BenchmarkResult in src/extract.ts of that repository.
    """

    name: str
    unit: str
    value: float
    range: NotRequired[str]
    extra: NotRequired[str]


class BencherMetric(TypedDict):
    """A metric of https://bencher.dev/bmf.json, the JSON Schema of the Bencher Metric Format."""

    value: float
    lower_value: NotRequired[float]
    upper_value: NotRequired[float]


BENCHER_BENCHMARK_CHARACTERS, BENCHER_MEASURE_CHARACTERS = 1024, 64
"""The limits of names: https://bencher.dev/docs/reference/bencher-metric-format."""


class AsvConfiguration(TypedDict):
    """The configuration: https://asv.readthedocs.io/en/stable/asv.conf.json.html."""

    version: int
    project: str
    repo: str
    branches: list[str]
    results_dir: str
    html_dir: str


class AsvMachine(TypedDict):
    """The fields of Machine in asv/machine.py of https://github.com/airspeed-velocity/asv."""

    machine: str
    os: str
    arch: str
    cpu: str
    num_cpu: str
    ram: str
    version: int


class AsvBenchmark(TypedDict):
    """A benchmark: "Benchmark suite layout" in https://asv.readthedocs.io/en/stable/dev.html."""

    name: str
    type: str
    unit: str
    version: str
    code: str
    param_names: list[str]
    params: list[list[str]]


class AsvResults(TypedDict):
    """The results of a commit: the same page, and Results.load of version 2 in asv/results.py."""

    version: int
    commit_hash: str
    date: int
    env_name: str
    env_vars: dict[str, str]
    params: dict[str, str]
    python: str
    requirements: dict[str, str]
    durations: dict[str, float]
    result_columns: list[str]
    results: dict[str, list[list[object] | str | None]]


ASV_COLUMNS = {
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
}  # fmt: skip
ASV_TYPES = {"time", "memory", "peakmemory", "track"}


def github_entries(text):
    entries = _read(text, list[GithubEntry])
    names = [entry["name"] for entry in entries]
    assert len({*names}) == len(names)
    return entries


def bencher_benchmarks(text):
    benchmarks = _read(text, dict[str, dict[str, BencherMetric]])
    for name, measures in benchmarks.items():
        assert 0 < len(name) <= BENCHER_BENCHMARK_CHARACTERS
        assert measures
        assert all(0 < len(measure) <= BENCHER_MEASURE_CHARACTERS for measure in measures)
        for metric in measures.values():
            assert metric.get("lower_value", metric["value"]) <= metric["value"]
            assert metric["value"] <= metric.get("upper_value", metric["value"])
    return benchmarks


def asv_files(files):
    """Check the files of a directory; return its benchmarks, and the results by name of the file."""
    configuration = _read(files["asv.conf.json"], AsvConfiguration)
    assert (configuration["version"], configuration["results_dir"]) == (1, "results")
    described = msgspec.json.decode(files["results/benchmarks.json"])
    assert described.pop("version") == 2
    benchmarks = msgspec.convert(described, dict[str, AsvBenchmark])
    assert [_benchmark(name, benchmark) for name, benchmark in benchmarks.items()]
    (machine_file,) = (name for name in files if name.endswith("/machine.json"))
    machine = _read(files[machine_file], AsvMachine)
    assert (machine["version"], f"results/{machine['machine']}/machine.json") == (1, machine_file)
    others = {"asv.conf.json", "results/benchmarks.json", machine_file}
    results = {name: _read(text, AsvResults) for name, text in files.items() if name not in others}
    for name, of_commit in results.items():
        folder, _, file = name.rpartition("/")
        assert folder == f"results/{of_commit['params']['machine']}"
        assert file == f"{of_commit['commit_hash'][:8]}-{of_commit['env_name']}.json"
        _results(of_commit, benchmarks)
    return benchmarks, results


def _benchmark(name, benchmark):
    assert benchmark["name"] == name
    assert set(benchmark) == AsvBenchmark.__required_keys__
    assert benchmark["type"] in ASV_TYPES
    assert len(benchmark["params"]) == len(benchmark["param_names"])
    return benchmark


def _results(of_commit, benchmarks):
    assert (of_commit["version"], len(of_commit["commit_hash"])) == (2, 40)
    columns = of_commit["result_columns"]
    assert {*columns} <= ASV_COLUMNS
    for name, row in of_commit["results"].items():
        values = dict(zip(columns, row, strict=False))
        (parameters,) = values["params"]
        assert {*parameters} <= {*benchmarks[name]["params"][0]}
        assert values["version"] == benchmarks[name]["version"]
        assert len(parameters) == len(msgspec.convert(values["result"], list[float]))
        assert len(parameters) == len(msgspec.convert(values.get("samples", parameters), list))


def _read(text, kind):
    """Decode JSON, and refuse keys that a type does not declare."""
    value = msgspec.json.decode(text, type=kind)
    assert value == msgspec.json.decode(text)
    return value
