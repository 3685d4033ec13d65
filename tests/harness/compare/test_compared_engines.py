"""Two engines, or two commits of an engine's own repository, are compared like two commits of this one."""

from __future__ import annotations

import gc
import json
import os
import signal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.harness.engine_repository import BUILD, engine_repository
from support.harness.local_tasks import tasks_in_process
from support.harness.programs import example_in_thread
from support.paths import ROOT

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.cli.measure.compare import _checkpoints
from deltamark.harness.compare import gate, rule
from deltamark.harness.compare import sides as side
from deltamark.harness.compare.sides import (
    SERVERS,
    CellSettings,
    OwnRepository,
    SideRequest,
    SideSpec,
    refuse_benchmark,
    sides,
)
from deltamark.harness.measure.client import CellRequest, OracleRequest, SampleRequest, WarmReply
from deltamark.harness.measure.server import QueryServer
from deltamark.harness.results.record import MEASURING

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture
def repository(tmp_path):
    """Make a repository of an engine, in whose second commit nothing changes, and which is slower in the third."""
    return engine_repository(tmp_path / "engine", (0.054, 0.054, 0.072))


@pytest.mark.parametrize("engines", [("embedded", "duckdb"), ("duckdb", "embedded"), ("duckdb", "spark-sql")])
@pytest.mark.parametrize("physical", [7, 1000, 10_000_000])
def test_a_stream_and_an_engine_with_batches_are_compared_at_ends_of_batches(chunked, engines, physical):
    cell, work = Cell("q04", "0.001", logical=3, physical=physical), workload(chunked, "insert")
    both = [SimpleNamespace(settings=CellSettings(engine=engine)) for engine in engines]
    *between, end = _checkpoints(cell, both, work)
    assert end == work.rounds
    assert bool(between) == (3 * physical < end)
    assert all(rounds % (3 * physical) == 0 for rounds in between)


class InProcess:
    """A measurement server without a process of its own."""

    def __init__(self, directory, _module, _root):
        self._server = QueryServer(Dataset.open(directory))

    def warm(self, _="tpch"):
        gc.collect()
        gc.freeze()  # each child begins with a collection, which would copy the pages of these objects
        return WarmReply(measuring=MEASURING)

    def oracle_answers(self, cell, rounds, limit, moments=()):
        return self._server.reply(OracleRequest(cell, limit, tuple(rounds), tuple(moments)))

    def cell(self, request):
        assert isinstance(request, CellRequest)
        return self._server.reply(request)

    def sample(self, cell, limit):
        return self._server.reply(SampleRequest(cell, limit))

    def close(self):
        self._server.close()


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Take few pairs, without a process of a server or an engine, and write the files elsewhere."""
    monkeypatch.setattr(gate, "SCREEN_PAIRS", 6)
    monkeypatch.setattr(rule, "MIN_CONFIRM_PAIRS", 6)
    monkeypatch.setattr(rule, "CONFIRM_PAIRS", 6)
    monkeypatch.setattr("deltamark.harness.measure.runs.SAMPLED_RUNS", 2)
    monkeypatch.setattr(side, "MeasurementClient", InProcess)
    example_in_thread(monkeypatch)
    written = tmp_path / "written"
    written.mkdir()
    for module in ("cli.measure.compare", "compare.sides"):
        monkeypatch.setattr(f"deltamark.harness.{module}.DIRECTORY", str(written))
    return written


@pytest.mark.parametrize(
    ("head", "ratio", "verdict", "confirming"), [("main", 4 / 3, "regression", 6), ("main~1", 1, "unchanged", 0)]
)
def test_commits_of_an_engine_are_compared(repository, quick, chunked, head, ratio, verdict, confirming):
    words = ["BASE=main~2", f"HEAD={head}", f"REPO={repository}", f"BUILD={BUILD}", "EXEC=engine.py"]
    words += ["SF=0.001", f"DATA={chunked.directory.parent}", "QUERIES=q06", "WORKLOAD=insert", "PHYSICAL=100000"]
    code = main(["compare", *words])
    found = json.loads((quick / "verdict-tpch.json").read_text())
    time = next(each for each in found["judgements"] if each["quantity"] == "time")
    assert (time["verdict"], time["ratio"]) == (verdict, pytest.approx(ratio))
    assert len(found["screening"]["q06 1x100000"]) == 6
    confirmed = [pair["head"]["time"] for pair in found["confirming"].get("q06 1x100000", [])]
    assert confirmed[:confirming] == pytest.approx([0.072] * confirming)
    assert code == found["exit_code"]
    assert (quick / "verdict-tpch.txt").read_text() == f"{found['verdict']}\n"


def test_engines_are_compared_over_a_folder(quick, tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    pq.write_table(pa.table({"sale": range(3000)}), folder / "sales.parquet")
    (folder / "sum.sql").write_text("SELECT sum(sale) AS total FROM sales")
    monkeypatch.chdir(tmp_path)
    words = ["BENCHMARK=shop", "KEYS=sales:sale", f"DATA={tmp_path / 'data'}"]
    with tasks_in_process():
        assert main(["data", *words]) == 0
    code = main(["compare", "BASE=embedded", "HEAD=duckdb", "PHYSICAL=1000", *words])
    found = json.loads((quick / "verdict-tpch.json").read_text())
    assert (code, found["broken"], found["not_compared"]) == (found["exit_code"], {}, {})
    assert list(found["screening"]) == ["sum 1x1000"]
    assert "BENCHMARK='shop?keys=sales:sale'" in found["command"]


def test_a_commit_that_knows_no_folder_is_refused_in_one_line(tmp_path):
    old = SideSpec("base", "base (v1)", tmp_path, SERVERS["tpch"])
    new = SideSpec("head", "head (main)", ROOT, SERVERS["tpch"])
    refuse_benchmark([new], "shop")
    with pytest.raises(DeltamarkError, match=r"base \(v1\) knows TPC-H alone: shop; name a later commit"):
        refuse_benchmark([old, new], "shop")


def test_a_build_that_fails_is_named(repository):
    own = OwnRepository(repository, "echo no compiler >&2; exit 3", "engine.py")
    cause = r"base \(main, \w+\) cannot be built: no compiler; run in .*/base: echo no compiler"
    with (
        pytest.raises(DeltamarkError, match=cause),
        sides(repository, SideRequest("main"), SideRequest("main"), "tpch", own),
    ):
        pass


def test_a_build_may_print_anything_and_leave_a_process(repository, tmp_path):
    build = f"sleep 60 & echo $! > {tmp_path}/left; printf '\\377\\n'; {BUILD}"
    own = OwnRepository(repository, build, "engine.py")
    with sides(repository, SideRequest("main"), SideRequest("main"), "tpch", own) as both:
        assert [side.settings.engine for side in both] == [f"exec:{side}/engine.py" for side in _roots(repository)]
    os.kill(int((tmp_path / "left").read_text()), signal.SIGTERM)


def _roots(repository):
    return [repository / ".compare" / name for name in ("base", "head")]


def test_a_program_that_is_not_built_is_named(repository):
    own = OwnRepository(repository, "", "target/engine")
    with (
        pytest.raises(DeltamarkError, match="no such program: exec:target/engine"),
        sides(repository, SideRequest("main"), SideRequest("main"), "tpch", own),
    ):
        pass


def test_two_settings_of_an_engine_are_two_sides(repository):
    requests = [SideRequest("embedded", CellSettings(workers=2, variant="sql")), SideRequest("duckdb")]
    with sides(repository, *requests, "tpch") as (base, head):
        assert (base.label, head.label) == ("base (embedded, 2 workers, variant sql)", "head (duckdb)")
        assert (base.root, head.root) == (ROOT, ROOT)
        cell = Cell("q01", "1")
        assert base.settings.applied(cell) == cell.but(engine="embedded", workers=2, variant="sql")
        assert head.settings.applied(cell) == cell.but(engine="duckdb")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["BUILD=make"], "no repository: BUILD=make; add REPO=DIR"),
        (["SUITE=graph", "BASE=embedded"], "motifs are compared between commits: embedded; name commits"),
        (["BASE=exec:python3 'x"], "not a command: python3 'x: No closing quotation"),
        (["BASE=exec: "], "not a command: ' '; give an executable"),
        (["REPO=/nonexistent", "EXEC=x"], "no such directory: /nonexistent; name the directory of a git repository"),
        (["REPO=."], "no program: .; add EXEC=PROGRAM"),
        (["WORKERS=1,2,3"], "WORKERS has 3 values: 1,2,3; give one, or one a side"),
        (["BASE=exec:./none"], "no such program: exec:./none"),
    ],
)
def test_wrong_sides_are_errors(words, message, capsys):
    assert main(["compare", *words]) == 2
    assert message in capsys.readouterr().err
