"""`make bench` end to end on the smallest data: its output, and the effects of stops, kills and wrong answers."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from support.harness.near_server import Near
from support.harness.processes import all_end
from support.paths import ROOT
from support.patience import patient

from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.measure.client import CellReply, CellRequest
from deltamark.harness.measure.server import QueryServer
from deltamark.harness.results import store
from deltamark.harness.results.record import latest
from deltamark.harness.suites import throughput
from deltamark.harness.suites.reporter import Reporter
from deltamark.harness.system import machine, resources

pytestmark = [
    pytest.mark.waits(3),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]

CELLS = ("QUERIES=q06,q15", "PHYSICAL=1000,10000", "ENGINES=embedded", "RUNS=1")


@pytest.fixture
def near(monkeypatch):
    monkeypatch.setattr(throughput, "MeasurementClient", Near)


@pytest.fixture
def words(data, tmp_path):
    return ["bench", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}"]


def directory(results):
    return results / machine.name(machine.facts())


def known(results):
    """Return the fields of the last record of each cell that do not depend on the speed of this machine."""
    last = latest(store.read(directory(results)).records)
    return {(each.cell, each.status, each.digest, each.tuples, each.changes) for each in last}


def after_one(monkeypatch, act):
    """Call a function when the first cell has been reported."""
    on_records = Reporter.on_records

    def report(self, records, remaining, estimate):
        on_records(self, records, remaining, estimate)
        if remaining == 3:
            act()

    monkeypatch.setattr(Reporter, "on_records", report)


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["bench", "SF=0.001", f"DATA={data}", f"RESULTS={results}", *CELLS]) == 0
    return results, out.getvalue()


def test_bench_prints_its_plan_then_every_cell_then_the_summary(uninterrupted):
    results, out = uninterrupted
    assert re.search(
        r"4 cells = 2 queries x 2 batchings, up to 1 run each, about \d+ s; 0 already done\n"
        r".* cores \(\d+ usable\), \d+ GB, .*"
        r"ready after \d+ s\n"
        r"1/4 q06 1x1000 .* 1 run, oracle, \d+ s so far, about \d+ s left\n.*2/4 q15 1x1000 .*, oracle, .*"
        r"3/4 q06 1x10000 .*, digest, .*4/4 q15 1x10000 .*, digest, \d+ s in all\n"
        r".*SF 0.001, 2 queries\n.*\nembedded +1 x 1000 .*4 cells measured; the control work took .*\nrecords  .*\n"
        r"tables   make tables SF=0.001 RESULTS=.*\nreport   make report SF=0.001 RESULTS=",
        out, re.DOTALL,
    )  # fmt: skip
    assert {status for _, status, *_ in known(results)} == {"ok"}
    assert [each["argv"] for each in store.sessions(directory(results)).values()]


def test_a_measured_cell_is_not_measured_again(uninterrupted, data, capsys):
    results, _ = uninterrupted
    before = store.read(directory(results)).records
    words = ["SF=0.001", f"DATA={data}", f"RESULTS={results}", *CELLS]
    assert main(["bench", *words]) == 0
    assert re.search(
        r"; 4 already done\n.*SF 0.001, 2 queries\n.*embedded +1 x 10000 ", capsys.readouterr().out, re.DOTALL
    )
    assert store.read(directory(results)).records == before
    assert main(["plan", *words, "WORKERS=1,2"]) == 0
    line, *left = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"8 cells = 2 queries x 4 batchings, up to 1 run each, about \d+ s; 4 already done", line)
    assert [re.sub(r" +about \d+ s$", "", each) for each in left] == [
        "    2 x insert 1x1000 -w2 embedded", "    2 x insert 1x10000 -w2 embedded",
    ]  # fmt: skip


def test_a_second_bench_is_refused(words, tmp_path, capsys):
    with store.writing(directory(tmp_path)):
        assert main([*words, *CELLS]) == 2
    assert re.fullmatch(
        r"error: .* is being written to: process \d+; wait for it, or stop it: touch .*STOP\n", capsys.readouterr().err
    )


@pytest.mark.usefixtures("near")
def test_a_file_stops_bench_after_a_cell(monkeypatch, words, tmp_path, uninterrupted, capsys):
    after_one(monkeypatch, (tmp_path / store.STOP).touch)
    assert main([*words, *CELLS]) == 0
    assert "1 cell measured; 3 left" in capsys.readouterr().out
    assert main([*words, *CELLS]) == 0
    assert known(tmp_path) == known(uninterrupted[0])


@pytest.mark.usefixtures("near")
def test_ctrl_c_prints_the_summary_of_the_measured_cells(monkeypatch, words, capsys):
    after_one(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
    assert main([*words, *CELLS]) == 130
    out, err = capsys.readouterr()
    assert re.search(r"\nembedded +1 x 1000 .*1 cell measured; 3 left", out, re.DOTALL)
    assert "run the same command again to continue" in err


@pytest.mark.usefixtures("near")
def test_a_wrong_engine_is_shown_wrong(monkeypatch, words, capsys):
    right = benchmark().queries["q06"]

    def broken(tpch, *, quantity, **given):
        return right.variants[right.default](tpch, quantity=quantity + 1, **given)

    monkeypatch.setitem(benchmark().queries, "q06", replace(right, variants={right.default: broken}))
    assert main([*words, *CELLS]) == 2
    out, err = capsys.readouterr()
    assert "cells without a number: 2 wrong; the tables show them" in out
    assert not re.search(r"q06 +[0-9]", out.split("SF 0.001, ")[-1])
    assert main(["tables", *(word for word in words[1:] if not word.startswith("DATA"))]) == 0
    assert re.search(r"^q06 +WRONG +WRONG +- +- +- ", capsys.readouterr().out, re.MULTILINE)
    assert "python -m harness answer q06 --sf 0.001" in err


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize(
    ("what", "limit", "status", "code"),
    [
        ("time.sleep(600)", 4, "timeout", 0),
        ("sys.exit(3)", 120, "failed", 2),
        ("os.kill(os.getppid(), 9)", 120, "failed", 2),
    ],
)
def test_a_hang_or_a_crash_is_a_result(words, tmp_path, capsys, what, limit, status, code):
    limit = round(patient(limit))
    program = tmp_path / "engine.py"
    greeting = '{"protocol": 1, "name": "faulty", "output": "batches"}'
    program.write_text(
        f"import os, sys, time\nsys.stdin.readline()\nprint('{greeting}', flush=True)\n"
        f"if 'open' in sys.stdin.readline():\n    {what}\n"
    )
    selected = ("QUERIES=q06", "LOGICAL=1000", f"ENGINES=exec:{program},duckdb", f"TIMEOUT={limit}")
    assert main([*words, *selected]) == code
    out, _ = capsys.readouterr()
    said = f">{limit}s" if status == "timeout" else status
    assert re.search(rf"^1/2 q06 1000x1 exec:.* {said}", out, re.MULTILINE)
    assert f"cells without a number: 1 {status}; the tables show them" in out


def test_a_killed_and_restarted_sweep_equals_an_uninterrupted_one(words, tmp_path, uninterrupted):
    victim = Random().choice(["itself", "its parent", "its cell"])
    command = [sys.executable, "-m", "harness", *words, *CELLS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            started = _killed(process, victim, tmp_path, Random().randrange(3))
            code = process.wait(60)
        finally:
            process.kill()
    assert all_end(started), victim
    assert victim == "its cell" or code == {"itself": -signal.SIGKILL, "its parent": 2}[victim], victim
    assert main([*words, *CELLS]) == 0
    assert known(tmp_path) == known(uninterrupted[0]), victim


def _killed(process, victim, results, cells):
    """Kill a process of a sweep when it has measured some cells; return the processes that it has started."""
    records = directory(results) / store.RECORDS
    while process.poll() is None:
        started = [child.pid for child in resources.descendants(process.pid)]
        measured = records.read_text().count("\n") if records.exists() else 0
        if len(started) == 2 and measured >= cells:
            os.kill({"itself": process.pid, "its parent": started[0], "its cell": started[1]}[victim], signal.SIGKILL)
            return started
        time.sleep(0.01)  # a list of processes takes milliseconds
    pytest.fail(f"it ended by itself, with {process.returncode}")


def test_cells_on_spark_share_a_session_until_one_is_bad(sf001, monkeypatch):
    """The first two and the last two cells have equal settings of a session; the fourth cell fails."""

    def measured(request, _answers, _dataset, stages):
        stages.wait()
        return CellReply(status="wrong" if request.cell.query == "q04" else "ok", digest=str(os.getpid()))

    monkeypatch.setattr("deltamark.harness.measure.server.measured", measured)
    settings = [("q01", 2), ("q02", 2), ("q03", 3), ("q04", 3), ("q05", 3)]
    with contextlib.closing(QueryServer(sf001)) as server:
        cells = [Cell(name, "0.01", engine="spark", workers=workers) for name, workers in settings]
        pids = [server.cell(CellRequest(cell, 1, 60.0)).digest for cell in cells]
    assert [pid == before for before, pid in pairwise(pids)] == [True, False, True, False]
