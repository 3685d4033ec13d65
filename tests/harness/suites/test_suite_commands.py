"""The commands of suites other than TPC-H: bench, plan, tables, report and readme."""

from __future__ import annotations

import re

import pytest
from support.harness.records import changed
from support.harness.site_records import GRADES, OF_ANOTHER_BENCHMARK
from support.harness.suite_records import (
    HEADER,
    MOTIFS,
    SLOW,
    FakeCells,
    distances,
    fails,
    growths,
    least_memory,
    load,
    measured,
    rates,
)

from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.main import main
from deltamark.harness.cli.results import readme
from deltamark.harness.cli.results.readme import section
from deltamark.harness.results import store
from deltamark.harness.suites.registry import SUITES, GraphSuite
from deltamark.harness.system import machine

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture
def kept(tmp_path):
    """A directory of results, with findings of one machine."""
    with store.writing(tmp_path / "machine") as writer:
        writer.add(measured())
        writer.add_session(HEADER)
    return tmp_path


def test_records_of_other_suites_are_not_on_the_page(kept, tmp_path):
    assert section(tmp_path / "nothing") == ""
    assert section(kept / "machine") == ""


def test_reference_records_of_the_same_cells_are_replaced_and_others_stay(kept, monkeypatch, tmp_path):
    monkeypatch.setattr(readme, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(readme, "REFERENCE", tmp_path / "reference")
    readme.PAGE.write_text(f"# before\n{readme.BEGIN}old\n{readme.END}after\n")
    with store.writing(readme.REFERENCE) as writer:
        writer.add([load(), changed(measured()[0], row="old")])
        writer.add_session(HEADER)
    assert main(["readme", f"RESULTS={kept}", "MACHINE=machine"]) == 0
    stored = store.read(readme.REFERENCE).records
    assert [record.row for record in stored] == ["1 x 1000", *MOTIFS]
    command = store.sessions(readme.REFERENCE)["session"]["argv"]
    assert command == "python -m harness bench SUITE=graph --runs 1", "paths are left out"
    written = readme.PAGE.read_text()
    assert written.startswith("# before\n")
    assert written.endswith("after\n")
    assert "old" not in written


def test_figures_that_an_older_version_did_not_measure_are_left_out(tmp_path, capsys):
    with store.writing(tmp_path / "machine") as writer:
        writer.add([changed(each, seconds_w1=[], seconds=[1.0]) for each in measured()])
    words = ["tables", "SUITE=graph", f"RESULTS={tmp_path}", "MACHINE=machine", "FORMAT=csv"]
    assert main([*words, "TABLE=static-rmat-7"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "static-rmat-7,triangle,7.0,0.5,-,9.0,0.5,-"


def test_tables_are_made_from_records_alone(kept, capsys):
    words = ["tables", "SUITE=graph", f"RESULTS={kept}", "MACHINE=machine"]
    assert main([*words, "TABLE=static-rmat-7", "FORMAT=csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "static-rmat-7,triangle,7.0,0.5,1.0,9.0,0.5,2.0"
    assert main([*words, "TABLE=static"]) == 0
    assert "Motifs in a static graph (rmat:7)" in capsys.readouterr().out
    assert main([*words, "TABLE=statik"]) == 2
    assert "unknown table: statik; did you mean static-rmat-7" in capsys.readouterr().err
    assert main([*words[:1], "SUITE=shared", *words[2:]]) == 2
    assert "nothing is measured: " in capsys.readouterr().err


def test_tables_are_those_of_the_benchmark(kept, capsys):
    with store.writing(kept / "machine") as writer:
        writer.add([*GRADES, *OF_ANOTHER_BENCHMARK, *growths("q01", "embedded", 0.0)])

    def printed(suite, *words):
        assert main(["tables", f"SUITE={suite}", *words, f"RESULTS={kept}", "MACHINE=machine"]) == 0
        return {*re.findall(r"\bq\d\d\b", capsys.readouterr().out)}

    assert (printed("coverage"), printed("coverage", "BENCHMARK=tpcds")) == ({"q01", "q04"}, {"q96"})
    assert (printed("growth"), printed("growth", "BENCHMARK=tpcds")) == ({"q01"}, {"q96"})
    words = ["tables", "SUITE=coverage", "BENCHMARK=ssb", f"RESULTS={kept}", "MACHINE=machine"]
    assert main(words) == 2
    assert "make bench BENCHMARK=ssb SUITE=coverage" in capsys.readouterr().err


@pytest.fixture
def fakes(monkeypatch):
    """The suite of graphs with cells that measure nothing."""
    fakes = FakeCells()

    class FakeSuite(GraphSuite):
        def make_data(self):
            pass

        def cells(self):
            return fakes.cells

        def prepare(self, cell):
            fakes.prepare(cell)

        def measure(self, cell):
            return fakes.measure(cell)

    monkeypatch.setitem(SUITES, "graph", FakeSuite)
    return fakes


def test_bench_measures_the_remaining_cells_and_prints_the_tables(fakes, tmp_path, capsys):
    words = ["bench", "SUITE=graph", f"RESULTS={tmp_path}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "suite graph: 3 cells, up to 3 runs each, 3 not yet measured; 0 already done" in out
    assert "2/3 graph rmat:7 static 4-clique" in out
    assert "Motifs in a static graph (rmat:7)" in out
    assert "3 cells measured; the control work took " in out
    assert main(words) == 0
    assert "3 already done" in capsys.readouterr().out
    assert len(fakes.prepared) == 3
    assert len(store.sessions(tmp_path / machine.name(machine.facts()))) == 1


def test_a_wrong_answer_is_exit_code_2(fakes, tmp_path, capsys):
    fakes.done["4-clique"] = fails(WrongAnswerError("wrong number of motifs 4-clique", "5, by hand 6", "ask DuckDB"))
    assert main(["bench", "SUITE=graph", f"RESULTS={tmp_path}"]) == 2
    said = capsys.readouterr()
    assert "WRONG: wrong number of motifs 4-clique: 5, by hand 6; ask DuckDB" in said.err
    assert re.search(r"4-clique +WRONG", said.out)
    assert fakes.prepared == [*MOTIFS]


def test_a_timeout_is_a_result_and_no_failure(fakes, tmp_path, capsys):
    fakes.done |= SLOW
    assert main(["bench", "SUITE=graph", "TIMEOUT=0.2", f"RESULTS={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"static 4-clique +>0.2s, \d+ s so far, about", out)
    assert re.search(r"\n4-clique .*>0.2s", out)
    assert "3 cells measured: 3 timeout; " in out


def test_a_plan_shows_the_remaining_cells_and_their_times(fakes, tmp_path, capsys):
    words = ["SUITE=graph", f"RESULTS={tmp_path}"]
    known = [changed(each, elapsed=took) for each, took in zip(measured()[:2], (7.0, 100.0), strict=True)]
    with store.writing(tmp_path / machine.name(machine.facts())) as writer:
        writer.add(known)
    assert main(["plan", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "suite graph: 3 cells, up to 3 runs each, about 2 min and 1 not yet measured; 0 already done"
    assert [line.split(maxsplit=6)[6] for line in lines[1:]] == ["about 7 s", "about 2 min", "1 not yet measured"]
    assert fakes.prepared == []
    assert main(["bench", *words]) == 0
    capsys.readouterr()
    assert main(["plan", *words]) == 0
    assert capsys.readouterr().out == "suite graph: 3 cells, up to 3 runs each, about 0 s; 3 already done\n"


@pytest.mark.parametrize("name", SUITES)
def test_a_plan_makes_no_data(name, tmp_path, capsys):
    assert main(["plan", f"SUITE={name}", f"RESULTS={tmp_path}", f"DATA={tmp_path / 'data'}"]) == 0
    cells = int(re.search(r"(\d+) cells?", capsys.readouterr().out)[1])
    assert cells > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interrupt", ["STOP", "Ctrl-C"])
def test_a_stopped_suite_shows_its_records(fakes, tmp_path, capsys, monkeypatch, interrupt):
    directory = tmp_path / machine.name(machine.facts())
    if interrupt == "STOP":
        monkeypatch.setattr(
            "deltamark.harness.suites.suite.control_seconds", lambda: (directory / "STOP").touch() or 0.1
        )
    else:
        fakes.interrupted = "4-clique"
    assert main(["bench", "SUITE=graph", f"RESULTS={tmp_path}"]) == (0 if interrupt == "STOP" else 130)
    out = capsys.readouterr().out
    assert "1 cell measured; 2 left" in out
    assert "Motifs in a static graph (rmat:7)" in out


@pytest.mark.parametrize("words", [["SUITE=graph", "SF=1"], ["SUITE=shared", "SCALE=9"], ["FUEL=3"]])
@pytest.mark.parametrize("command", ["bench", "plan"])
def test_settings_of_other_suites_are_refused(command, words, tmp_path, capsys):
    assert main([command, *words, f"RESULTS={tmp_path}"]) == 2
    assert (
        f"no setting of the suite {dict(w.split('=') for w in words).get('SUITE', 'tpch')}" in capsys.readouterr().err
    )


def test_errors_can_be_debugged_in_every_suite(tmp_path, capsys):
    assert main(["bench", "--debug", "SUITE=shared", "QUERIES=q23", f"RESULTS={tmp_path}"]) == 2
    assert "Traceback" in capsys.readouterr().err


SHOWN = {
    "graph": "Motifs in a static graph", "shared": "Shared against unshared",
    "loops": "Distances over a random graph", "memory": "Least memory in which a cell passes",
    "rate": "Highest sustained rate",
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_report_shows_suites_without_records_of_tpch(name, tmp_path):
    records = {
        "graph": measured, "shared": lambda: [load()], "loops": distances, "memory": lambda: [least_memory()],
        "rate": lambda: rates("q05 on embedded"),
    }[name]()  # fmt: skip
    with store.writing(tmp_path / "machine") as writer:
        writer.add(records)
        writer.add_session(HEADER)
    assert main(["report", f"RESULTS={tmp_path}", "MACHINE=machine"]) == 0
    page = (tmp_path / "machine" / "report.html").read_text()
    assert SHOWN[name] in page
    assert '<section id="points">' not in page
