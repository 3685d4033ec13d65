"""The reference: its steps are calls of bench, begin on a quiet machine alone, and are resumed by commit."""

from __future__ import annotations

import pytest

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.cli.measure import reference
from deltamark.harness.results.record import Origin
from deltamark.harness.suites.plan import Effort, Plan
from deltamark.harness.system import machine

ORIGIN = Origin("code", "versions")
MODULE = "deltamark.harness.cli.measure.reference"


@pytest.fixture
def called(monkeypatch, tmp_path):
    """The calls of bench, which measure nothing, of a commit that is c0ffee."""
    calls = []

    def call(words):
        calls.append(words)
        return calls.count(words) - 1  # a second call of the same line fails

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"{MODULE}.call", call)
    monkeypatch.setattr(f"{MODULE}._plan", lambda _: (Plan([], [], ORIGIN, Effort(1, 1.0)), "nothing"))
    monkeypatch.setattr(machine, "commit", lambda: "c0ffee")
    monkeypatch.setattr(f"{MODULE}.check_quiet", lambda: None)
    return calls


def test_a_step_is_one_call_of_bench_for_each_line_into_a_directory_of_the_commit(called, monkeypatch):
    monkeypatch.setattr(reference, "STEPS", {"grid": ["SF=1"], "more": ["SUITE=rate", "SUITE=graph SCALE=7"]})
    assert main(["reference"]) == 0
    results = "RESULTS=results/commits/c0ffee"
    assert called == [["bench", "SF=1", results], ["bench", "SUITE=rate", results],
                      ["bench", "SUITE=graph", "SCALE=7", results]]  # fmt: skip
    assert main(["reference", "STEPS=more"]) == 1, "the worst exit code"


def test_engines_that_are_not_set_up_are_left_out(called, monkeypatch, capsys):
    monkeypatch.setattr(f"{MODULE}.every_engine", lambda: ("embedded", "duckdb"))
    monkeypatch.setattr(reference, "STEPS", {"one": ["ENGINES=embedded,flink SF=1", "ENGINES=flink SF=1"]})
    assert main(["reference"]) == 0
    assert [words[1] for words in called] == ["ENGINES=embedded"]
    assert "one: left out, because it is not set up: flink" in capsys.readouterr().err


def test_benchmarks_whose_packages_are_not_installed_are_left_out(called, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(reference, "STEPS", {"one": ["BENCHMARK=ssb SF=1", "BENCHMARK=tpcds SF=1"]})
    monkeypatch.setattr("deltamark.harness.benchmarks.packages.INSTALLED", tmp_path)
    assert main(["reference"]) == 0
    assert [words[1] for words in called] == ["BENCHMARK=ssb"]
    assert "one: left out, because it is not set up: tpcds; make packages BENCHMARK=tpcds" in capsys.readouterr().err


def test_ctrl_c_ends_the_run(called, monkeypatch):
    monkeypatch.setattr(reference, "STEPS", {"one": ["SF=1", "SF=10"]})
    monkeypatch.setattr(f"{MODULE}.call", lambda words: called.append(words) or 130)
    assert main(["reference"]) == 130
    assert len(called) == 1


def test_a_call_that_was_stopped_ends_the_run(called, monkeypatch):
    monkeypatch.setattr(reference, "STEPS", {"one": ["SF=1", "SF=10"]})
    stopped = Plan([Cell("q01", "1")], [], ORIGIN, Effort(1, 1.0))
    monkeypatch.setattr(f"{MODULE}._plan", lambda _: (stopped, "one cell"))
    assert main(["reference"]) == 0
    assert len(called) == 1


def test_a_busy_machine_is_refused_unless_told(called, monkeypatch, capsys):
    monkeypatch.undo()
    monkeypatch.setattr(f"{MODULE}.call", lambda words: called.append(words) or 0)
    monkeypatch.setattr(f"{MODULE}._plan", lambda _: (Plan([], [], ORIGIN, Effort(1, 1.0)), "nothing"))
    monkeypatch.setattr(machine, "commit", lambda: "c0ffee")
    monkeypatch.setattr(f"{MODULE}.psutil.cpu_percent", lambda _: 80.0)
    assert main(["reference", "STEPS=grid"]) == 2
    assert "the machine is busy" in capsys.readouterr().err
    assert main(["reference", "STEPS=grid", "NOISY=yes"]) == 0
    assert len(called) == 1


def test_a_machine_whose_fixed_work_varies_is_refused(monkeypatch):
    times = iter([1.0, 2.0] * 40)
    monkeypatch.setattr(f"{MODULE}.psutil.cpu_percent", lambda _: 0.0)
    monkeypatch.setattr(f"{MODULE}.control_seconds", lambda: next(times))
    with pytest.raises(DeltamarkError, match=r"not steady: fixed work takes 1 s to 2 s"):
        reference.check_quiet()


def test_a_work_tree_with_changes_and_an_unknown_step_are_errors(called, monkeypatch, capsys):
    assert main(["reference", "STEPS=gird"]) == 2
    monkeypatch.setattr(machine, "commit", lambda: "c0ffee+")
    assert main(["reference"]) == 2
    errors = capsys.readouterr().err
    assert "unknown step: gird; did you mean grid" in errors
    assert "no reference of a work tree with changes: c0ffee+" in errors
    assert not called


@pytest.mark.parametrize("step", reference.STEPS)
def test_every_line_selects_cells(step, monkeypatch, tmp_path):
    for module in (MODULE, "deltamark.harness.cli.sweep_options"):
        monkeypatch.setattr(f"{module}.every_engine", lambda: ("embedded", "duckdb"))
    for line in reference._lines(step, tmp_path):
        assert reference._plan(line)[0].remaining
