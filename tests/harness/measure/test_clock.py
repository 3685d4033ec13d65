"""One module of the harness reads the clock for published times; the others that read one are listed with a reason."""

from __future__ import annotations

import ast

import pytest
from support.paths import ROOT

from deltamark.harness.system.clock import Stopwatch, timed

CLOCK = "system/clock.py"

DEADLINES = {
    "chaos/cluster.py", "strikes/running.py", "compare/trees.py", "engines/external/keeper.py",
    "engines/external/program.py", "measure/child.py", "suites/memory.py",
}  # fmt: skip
"""Modules that wait for a process or a file, up to a deadline."""

PROGRESS = {
    "cli/measure/bench.py", "cli/measure/reference.py", "cli/queries/check.py", "compare/gate.py",
    "console/progress.py", "suites/reporter.py",
}  # fmt: skip
"""Modules that print how long a command has taken, or will take."""

STRIKES = {"strikes/running.py", "strikes/spark.py"}
"""Modules that strike a process at a moment of its run."""

PRESENT = {"cli/results/validate.py"}
"""Modules that compare dates with the present."""

CLOCKS = {"time", "timeit"}
"""The modules of Python that have clocks. Those that only convert dates are not among them."""


def modules_with_a_clock():
    for path in (ROOT / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            if CLOCKS & set(names):
                yield path.relative_to(ROOT / "harness").as_posix()


def test_only_the_clock_and_modules_with_a_reason_read_a_clock():
    assert set(modules_with_a_clock()) == {CLOCK, *DEADLINES, *PROGRESS, *STRIKES, *PRESENT}


def test_a_stopwatch_adds_up_its_pieces_of_work():
    with (watch := Stopwatch()):
        pass
    with watch:
        sum(range(100_000))
    assert watch.seconds == sum(watch.laps) > 0
    assert len(watch.laps) == 2


def test_a_piece_counts_that_fails():
    watch = Stopwatch()
    with pytest.raises(ZeroDivisionError), watch:
        _ = 1 / 0
    assert len(watch.laps) == 1


def test_a_timed_function_keeps_its_result():
    seconds, result = timed(lambda: "result")
    assert seconds > 0
    assert result == "result"


@pytest.mark.parametrize(("most", "enough", "pieces"), [(3, 1e9, 3), (3, 0, 0), (5, 1e-12, 1)])
def test_work_is_repeated_up_to_a_number_or_a_time(most, enough, pieces):
    watch = Stopwatch()
    for _ in watch.repeats(most, enough):
        with watch:
            pass
    assert len(watch.laps) == pieces
