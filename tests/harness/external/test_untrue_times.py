"""An engine that leaves its work out of its time is found by the CPU time of its processes; an honest one is not."""

from __future__ import annotations

import math
import runpy
import subprocess
import sys
from contextlib import closing, nullcontext
from unittest.mock import Mock

import pytest
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, example_in_thread, faulty
from support.paths import ROOT

from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.engines.registry import external_info, open_engine
from deltamark.harness.measure.client import CellRequest
from deltamark.harness.measure.runs import answers_of, measured
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import Origin, blank_record
from deltamark.harness.system.clock import CpuUse

BUSY = ROOT / "tests" / "support" / "engines" / "busy_program.py"
SQLITE = BUSY.with_name("sqlite_program.py")


def timed(dataset, engine):
    """Return the record of a cell of four batches that nothing checks."""
    cell = Cell("q06", "0.001", logical=2000, physical=1, engine=engine)
    reply = measured(CellRequest(cell, 1, 60.0, checked=False), {}, dataset, Mock())
    blank = blank_record(cell, Origin("", ""), external_info(engine))
    return reply.fill(blank)


@pytest.mark.parametrize("place", ["apply", "convert"])
def test_the_time_of_an_honest_engine_is_plausible(chunked, place):
    record = timed(chunked, f"exec:{BUSY} {place}")
    assert doubt_of(record) == ""
    assert record.timed_cpu[0] > 0.1
    assert (record.untimed_cpu[0] > record.timed_cpu[0]) == (place == "convert")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("apply, not reported", "of CPU time in the clock"),
        ("feed", "of CPU time outside the clock"),
        ("thread after the reply", "of CPU time"),
        ("process after the reply", "of CPU time"),
        ("daemon after the reply", "of CPU time"),
        ("answer", "of CPU time for the answer after the last batch, and reports 2 \u00b5s for a batch"),
    ],
)
def test_work_that_is_not_in_the_time_is_found(chunked, monkeypatch, place, reason):
    """Also in a run that ends before its processes are listed again."""
    monkeypatch.setattr("deltamark.harness.measure.runs.LIST_EVERY_S", math.inf)
    record = timed(chunked, f"exec:{BUSY} {place}")
    assert reason in doubt_of(record)
    assert record.timed_cpu[0] + record.untimed_cpu[0] + record.answer_cpu[0] > 0.1


@pytest.mark.waits(2)
def test_work_in_a_process_that_the_engine_did_not_start_is_found(chunked):
    """Its CPU time is not seen, but the time of the replies is."""
    assert doubt_of(timed(chunked, f"exec:{BUSY} elsewhere")).startswith("its replies took ")


LATE = (
    "before = getattr(self, 'before', {})\n        if not self.collect:\n"
    "            self.before, self.batch = self.batch, before\n        return super().apply(request)"
)
WHEN_CHECKED = "self.collect = request['collect']; return super().open(request | {sql})"
Q06_OF_SQLITE = """SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_quantity < 24
    AND l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount BETWEEN 0.049 AND 0.071"""


@pytest.mark.parametrize(("of", "sql", "problem"), [
    (EXAMPLE_FILE, {}, "changes"), (SQLITE, {"sql": Q06_OF_SQLITE}, "DuckDB"),
])  # fmt: skip
def test_an_engine_that_is_a_batch_late_in_timed_runs_only_is_wrong(chunked, tmp_path, of, sql, problem):
    """It knows which runs are checked: the harness asks for changes there."""
    hello = "return super().hello(request) | {'maintains': True}"
    engine = faulty(tmp_path, of, hello=hello, open=WHEN_CHECKED.format(sql=sql), apply=LATE)
    cell = Cell("q06", "0.001", logical=2000, physical=1, engine=engine)
    answers = answers_of(cell, workload(chunked, "insert"))
    reply = measured(CellRequest(cell, 1, 60.0, checked=True), answers, chunked, Mock())
    assert reply.status == "wrong"
    assert problem in reply.problem


def test_an_engine_that_reports_no_time_at_all_fails(chunked, tmp_path):
    engine = faulty(tmp_path, apply="return super().apply(request) | {'seconds': 0.0}")
    with pytest.raises(
        DeltamarkError, match=r"reports no time: 0\.0 s for 4 batches; report times of a monotonic clock"
    ):
        timed(chunked, engine)


def test_an_answer_must_have_as_many_rows_as_were_counted(chunked):
    """An engine with answers is timed until it has counted the rows of its answer, so it must have computed them."""
    cell = Cell("q06", "0.001", physical=2000, engine=f"exec:{BUSY} nowhere")
    with closing(open_engine(cell, chunked, workload(chunked, "insert"))) as engine:
        engine.take(2000)
        assert engine.apply() == 1
        with pytest.raises(DeltamarkError, match="failed to answer: the file has 0 rows, and the program counted 1"):
            engine.answer()


@pytest.mark.parametrize("last", [0, 1])
def test_an_answer_after_several_batches_has_as_many_rows_as_the_last_one_has_counted(monkeypatch, chunked, last):
    class Several(runpy.run_path(str(BUSY))["Engine"]):
        def __init__(self):
            super().__init__("nowhere")

        def hello(self, request):
            return super().hello(request) | {"several": True}

        def feed(self, request):
            self.batches = len(request["ends"])
            return {}

        def apply(self, _):
            return {"changes": [2] * (self.batches - 1) + [last], "seconds": [1e-9] * self.batches}

    example_in_thread(monkeypatch, Several)
    cell = Cell("q06", "0.001", logical=1000, physical=1, engine=f"exec:{BUSY}")
    with closing(open_engine(cell, chunked, workload(chunked, "insert"))) as engine:
        assert len(engine.take_several(1, 2)) == 2
        assert [changes for changes, _ in engine.apply_several()] == [2, last]
        with nullcontext() if last == 0 else pytest.raises(DeltamarkError, match="the program counted 1"):
            assert engine.answer() == []


@pytest.mark.waits(2)
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_bench_marks_a_time_that_is_not_plausible(chunked, tmp_path, capsys):
    lying = faulty(tmp_path, apply="return super().apply(request) | {'seconds': 1e-7}")
    words = ["SF=0.001", f"RESULTS={tmp_path / 'results'}"]
    cells = ["QUERIES=q06", "LOGICAL=2000", "PHYSICAL=1", "RUNS=1", f"ENGINES=lying={lying},honest={EXAMPLE}"]
    assert main(["bench", *words, *cells, f"DATA={chunked.directory.parent}"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "2 cells measured; 1 with a time that is not plausible" in out
    assert out.count("~ lying, 1 cell, such as q06 2000 x 1: ") == 1
    assert "~ honest" not in out
    assert main(["tables", *words]) == 0
    assert "~ lying, 1 cell" in " ".join(capsys.readouterr().out.split())


def test_conformance_reports_times_that_are_not_plausible(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("deltamark.harness.cli.measure.engines.run_all", lambda _: iter(()))
    in_feed = {
        "feed": "super().feed(request); self.reply = super().apply(request); return {}",
        "apply": "return self.reply | {'seconds': 1e-6}",
    }
    main(["conformance", faulty(tmp_path, EXAMPLE_FILE, **in_feed)])
    assert ": not plausible: it used " in capsys.readouterr().out.splitlines()[0]


PARENT = """
import subprocess, sys
burn = "import time" + chr(10) + "while time.process_time() < 0.1: pass"
for line in sys.stdin:
    if line.strip() == "start":
        started = subprocess.Popen([sys.executable, "-c", burn])
    else:
        started.wait()
    print("done", flush=True)
"""


def test_processes_that_end_take_no_cpu_time_back():
    """They count at the latest once their parent has waited for them."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        use, passed = CpuUse(0.0), []
        for what in (b"start\n", b"wait\n") * 2:
            parent.stdin.write(what)
            parent.stdin.flush()
            parent.stdout.readline()
            passed.append(use.passed())
        parent.stdin.close()
    assert min(passed) >= 0
    assert sum(passed) > 0.18
