"""Suites beside that of TPC-H, with cells that measure nothing: resuming, stopping, wrong answers, limits, tables."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from functools import partial

import duckdb
import pytest
from msgspec.structs import replace

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.cli.results import readme
from deltamark.harness.cli.results.readme import section
from deltamark.harness.console.formatting import brief
from deltamark.harness.measure import control_work
from deltamark.harness.results import machine, store
from deltamark.harness.results.record import VERSION, Origin, from_line, latest
from deltamark.harness.results.table_record import TableRecord, TableRow, merged
from deltamark.harness.suites.graphs.suite import GraphSuite
from deltamark.harness.suites.plan import Effort, Plan
from deltamark.harness.suites.registry import SUITES
from deltamark.harness.suites.runner import Runner
from deltamark.harness.suites.table_cell import ForkingMeasurer, TableCell, WrongAnswerError, forking

ORIGIN = Origin("code", "versions", "commit", "session")
FIGURES = {"found": [7], "indexed": [0.5], "batches": [1], "seconds_w1": [2.0, 1.0], "seconds_w2": [1.5],
           "by_hand": [0.5], "proposals": [9], "state_bytes": [100], "state_rows": [10]}  # fmt: skip
MOTIFS = ("triangle", "4-clique", "5-clique")
EFFORT = Effort(1, 600.0)

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


class FakeCells:
    """Cells of a table that count how often they were measured. done: by some of them, in their process."""

    def __init__(self, **done):
        self.asked, self.done, self.interrupted = [], done, ""
        self.cells = [
            TableCell(
                "graph", "static", "rmat:7", name, "data", partial(self._measure, name), partial(self._prepare, name),
                verified="by hand",
            )
            for name in MOTIFS
        ]  # fmt: skip

    def _prepare(self, name):
        self.asked.append(name)
        if name == self.interrupted:
            raise KeyboardInterrupt

    def _measure(self, name):
        self.done.get(name, int)()
        yield TableRow(name, FIGURES)


def fails(error):
    def fail():
        raise error

    return fail


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


SLOW = dict.fromkeys(MOTIFS, partial(time.sleep, 600))
WRONG = fails(WrongAnswerError("two counts", 5, "ask"))


class Sink:
    def __init__(self, most=99):
        self.records, self._most = [], most

    def take_stop(self):
        return len(self.records) >= self._most

    def add(self, record):
        self.records.append(record)


class Silent:
    def on_begin(self, cell):
        pass

    def on_record(self, record, remaining, estimate):
        pass


def measure(fakes, sink, known=(), origin=ORIGIN, effort=EFFORT):
    plan = Plan(fakes.cells, known, origin, effort)
    runner = Runner(plan, ForkingMeasurer(plan), sink, Silent())
    runner.run()
    return runner.records


def measured(effort=EFFORT, **done):
    return measure(FakeCells(**done), Sink(), effort=effort)


def record(row, figures=None, **fields):
    return TableRecord(rows=(TableRow(row, figures or {}),), **fields)


def suite_tables(records, suite):
    return SUITES[suite].tables(records)


def texts(table):
    return [[entry.text for entry in row] for row in table.rows]


def static(found):
    return next(table for table in suite_tables(found, "graph") if table.name == "static-rmat-7")


def test_what_was_found_makes_the_tables():
    assert texts(static(measured())) == [[name, "7", "500 ms", "1 s", "9", "500 ms", "2.00x"] for name in MOTIFS]
    assert {table.name for table in suite_tables(measured(), "graph")} == {
        "static-rmat-7", "cost-rmat-7", "memory-rmat-7",
    }  # fmt: skip
    assert suite_tables(measured(), "shared") == []


@pytest.mark.parametrize(
    ("done", "text", "problem"),
    [
        (WRONG, "WRONG", "two counts: 5; ask"),
        (fails(DeltamarkError("no memory", 5, "buy")), "failed", "no memory: 5; buy"),
        (fails(MemoryError("7 GB")), "failed", "MemoryError: 7 GB"),
        (dies, "failed", "ended by SIGKILL, perhaps for want of memory"),
    ],
)
def test_what_has_gone_wrong_is_told_of_that_cell_alone_and_never_a_number(done, text, problem):
    found = measured(triangle=done)
    assert texts(static(found))[0] == ["triangle", *[text] * 6]
    assert found[0].problem == problem
    assert [each.status for each in found[1:]] == ["ok", "ok"]
    for table in suite_tables(found, "graph"):
        rows = [row for row in texts(table) if "triangle" in row[0]]
        assert all({*row[1:]} <= {text, "-"} for row in rows), table.name


def test_what_takes_longer_than_it_may_is_ended():
    found = measured(Effort(1, 0.2), **SLOW)
    assert texts(static(found)) == [[name, *[">0.2s"] * 6] for name in MOTIFS]
    assert {(each.status, each.problem, each.is_bad) for each in found} == {("timeout", "over 0.2 s", False)}


def test_what_is_done_by_the_same_is_not_measured_again():
    first = measured()
    for origin, runs, again in (
        (ORIGIN, 1, 0), (replace(ORIGIN, session="next", commit="other"), 1, 0), (ORIGIN, 2, 3),
        (replace(ORIGIN, code="other"), 1, 3), (replace(ORIGIN, versions="other"), 1, 3),
    ):  # fmt: skip
        fakes = FakeCells()
        measure(fakes, Sink(), first, origin, Effort(runs, 600.0))
        assert len(fakes.asked) == again


def test_what_took_too_long_is_measured_again_if_it_may_take_longer():
    first = measured(Effort(1, 0.2), **SLOW)
    for limit, again in ((0.1, []), (0.2, []), (600.0, [*MOTIFS])):
        fakes = FakeCells()
        measure(fakes, Sink(), first, effort=Effort(1, limit))
        assert fakes.asked == again


def test_what_was_wrong_is_measured_again():
    first = measured(triangle=WRONG)
    fakes = FakeCells()
    again = measure(fakes, Sink(), first)
    assert fakes.asked == ["triangle"]
    assert texts(static([*first, *again])) == texts(static(measured()))


def test_stopped_and_begun_again_is_uninterrupted():
    sink, whole = Sink(most=1), measured()
    while len(sink.records) < len(whole):
        before = len(sink.records)
        measure(FakeCells(), sink, sink.records)
        assert len(sink.records) == before + 1
        sink._most += 1
    assert texts(static(sink.records)) == texts(static(whole))


def test_what_was_measured_before_an_interruption_is_kept():
    sink, fakes = Sink(), FakeCells()
    fakes.interrupted = "4-clique"
    with pytest.raises(KeyboardInterrupt):
        measure(fakes, sink)
    assert [row.name for each in sink.records for row in each.rows] == ["triangle"]


def test_the_last_of_a_cell_counts_with_all_its_rows():
    lines = [("a", "x", "1"), ("b", "x", "1"), ("c", "y", "1"), ("b", "x", "2")]
    records = list(merged(record(row, cell=cell, finished_at=at) for row, cell, at in lines))
    assert [[row.name for row in each.rows] for each in records] == [["a", "b"], ["c"], ["b"]]
    assert [*latest(records[:2]).values()] == records[:2]
    assert [*latest(records).values()] == records[1:]


def test_rows_are_in_the_order_of_their_numbers():
    figures = {"changes": [9], "proposals": [9], "p99_w1": [1], "p99_w2": [1], "seconds_w1": [1], "seconds_w2": [1]}
    figures |= {"by_hand": [1], "batches": [1], "state_bytes": [8], "edges": [1]}
    found = [
        record(row, figures, suite="graph", dataset="rmat:7", table="changing", cell=row) for row in ("1000", "1", "10")
    ]
    shown = {table.name: [row[0] for row in texts(table)] for table in suite_tables(found, "graph")}
    assert shown["changing-rmat-7"] == ["1", "10", "1K"]


def test_cost_is_the_fewest_workers_that_beat_one_thread():
    figures = {"batches": [1], "seconds_w1": [3.0], "seconds_w2": [2.0]}
    costs = []
    for hand in (4.0, 2.5, 1.0):
        figures |= {"by_hand": [hand]}
        found = record("triangle", figures, suite="graph", dataset="x", table="at once", cell="x")
        (table,) = suite_tables([found], "graph")
        costs.append(texts(table)[0][-1])
    assert costs == ["1", "2", "more than 2"]


def test_a_record_survives_its_lines():
    (found, *_) = measured()
    both = replace(found, rows=(*found.rows, TableRow("another", FIGURES, "a note")))
    assert [*merged(from_line(TableRecord, line) for line in both.lines)] == [both]
    assert from_line(TableRecord, json.dumps({"version": VERSION + 1}).encode()) is None


def add(writer, records):
    for each in records:
        writer.add(each)


def test_duckdb_reads_findings_in_one_statement(tmp_path):
    for name in ("a", "b"):
        with store.writing(tmp_path / name) as writer:
            add(writer, measured())
    sql = f"SELECT list_min(figures['seconds_w1']) FROM '{tmp_path}/*/findings.jsonl' WHERE row = '4-clique'"
    assert duckdb.sql(sql).fetchall() == [(1.0,)] * 2


# the commands


FACTS = {
    "cpu": "CPU", "cores": 2, "usable": 2, "memory_gb": 8, "caches": "", "system": "x", "limits": "none",
    "governor": "powersave", "load": 0.0,
}  # fmt: skip
HEADER = {
    "session": "session",
    "started": "s",
    "machine": FACTS,
    "versions": "v",
    "java": "j",
    "commit": "c",
    "argv": "python -m harness bench SUITE=graph DATA=/my/data --results /my/results --runs 1",
}


@pytest.fixture
def kept(tmp_path):
    """A directory of results, with findings of one machine."""
    with store.writing(tmp_path / "machine") as writer:
        add(writer, measured())
        writer.add_session(HEADER)
    return tmp_path


def test_the_readme_shows_the_suites_that_have_records(kept, tmp_path):
    assert section(tmp_path / "nothing") == ""
    shown = section(kept / "machine")
    assert shown.startswith("### Graphs\n\nCPU, 2 cores")
    assert "| triangle |" in shown
    assert "Sharing" not in shown


def test_the_reference_of_a_suite_is_replaced_and_others_stay(kept, monkeypatch, tmp_path):
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.README.write_text(f"# before\n{readme.BEGIN}old\n{readme.END}after\n")
    with store.writing(kept / readme.REFERENCE) as writer:
        add(writer, [load(), replace(measured()[0], rows=(TableRow("old"),))])
        writer.add_session(HEADER)
    assert main(["readme", "SUITE=graph", f"RESULTS={kept}", "MACHINE=machine"]) == 0
    stored = store.read(kept / readme.REFERENCE).records
    assert [row.name for each in stored for row in each.rows] == ["1 x 1000", *MOTIFS]
    command = store.sessions(kept / readme.REFERENCE)["session"]["argv"]
    assert command == "python -m harness bench SUITE=graph --runs 1", "where things lay is left out"
    written = readme.README.read_text()
    assert written.startswith("# before\n")
    assert written.endswith("after\n")
    assert [line for line in written.splitlines() if line.startswith("### ")] == ["### Graphs", "### Sharing"]


def test_what_an_older_version_has_not_measured_is_left_out(tmp_path, capsys):
    older = {name: values for name, values in FIGURES.items() if name != "seconds_w1"} | {"seconds": [1.0]}
    with store.writing(tmp_path / "machine") as writer:
        add(writer, [replace(each, rows=(TableRow(each.rows[0].name, older),)) for each in measured()])
    words = ["tables", "SUITE=graph", f"RESULTS={tmp_path}", "MACHINE=machine", "FORMAT=csv"]
    assert main([*words, "TABLE=static-rmat-7"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "static-rmat-7,triangle,7.0,0.5,-,9.0,0.5,-"


def test_tables_come_from_findings_alone(kept, capsys):
    words = ["tables", "SUITE=graph", f"RESULTS={kept}", "MACHINE=machine"]
    assert main([*words, "TABLE=static-rmat-7", "FORMAT=csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "static-rmat-7,triangle,7.0,0.5,1.0,9.0,0.5,2.0"
    assert main([*words, "TABLE=static"]) == 0
    assert "Motifs in a static graph (rmat:7)" in capsys.readouterr().out
    assert main([*words, "TABLE=statik"]) == 2
    assert "unknown table: statik; did you mean static-rmat-7" in capsys.readouterr().err
    assert main([*words[:1], "SUITE=shared", *words[2:]]) == 2
    assert "nothing is measured: " in capsys.readouterr().err


@pytest.fixture
def fakes(monkeypatch):
    """The suite of graphs with cells that measure nothing."""
    fakes = FakeCells()

    class FakeSuite(GraphSuite):
        def make_data(self):
            pass

        def cells(self):
            return fakes.cells

        def measurer(self, plan):
            return forking(plan, int)

    monkeypatch.setitem(SUITES, "graph", FakeSuite)
    return fakes


def test_bench_measures_what_is_left_and_prints_the_tables(fakes, tmp_path, capsys):
    words = ["bench", "SUITE=graph", f"RESULTS={tmp_path}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "suite graph: 3 cells, up to 3 runs each, 3 not yet measured; 0 already done" in out
    assert "2/3 graph rmat:7 static 4-clique" in out
    assert "Motifs in a static graph (rmat:7)" in out
    assert "3 cells measured; the control work took " in out
    assert main(words) == 0
    assert "3 already done" in capsys.readouterr().out
    assert len(fakes.asked) == 3
    assert len(store.sessions(tmp_path / machine.name(machine.facts()))) == 1


def test_a_wrong_answer_is_exit_code_2(fakes, tmp_path, capsys):
    fakes.done["4-clique"] = fails(WrongAnswerError("wrong number of motifs 4-clique", "5, by hand 6", "ask DuckDB"))
    assert main(["bench", "SUITE=graph", f"RESULTS={tmp_path}"]) == 2
    said = capsys.readouterr()
    assert "WRONG: wrong number of motifs 4-clique: 5, by hand 6; ask DuckDB" in said.err
    assert re.search(r"4-clique +WRONG", said.out)
    assert fakes.asked == [*MOTIFS]


def test_what_takes_too_long_is_data_and_no_failure(fakes, tmp_path, capsys):
    fakes.done |= SLOW
    assert main(["bench", "SUITE=graph", "TIMEOUT=0.2", f"RESULTS={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"static 4-clique +>0.2s, about", out)
    assert re.search(r"\n4-clique .*>0.2s", out)
    assert "3 cells measured: 3 timeout; " in out


def test_a_plan_says_what_is_left_and_how_long_that_took(fakes, tmp_path, capsys):
    words = ["SUITE=graph", f"RESULTS={tmp_path}"]
    known = [replace(each, elapsed=took) for each, took in zip(measured()[:2], (7.0, 100.0), strict=True)]
    with store.writing(tmp_path / machine.name(machine.facts())) as writer:
        add(writer, known)
    assert main(["plan", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "suite graph: 3 cells, up to 3 runs each, about 2 min and 1 not yet measured; 0 already done"
    assert [line.split(maxsplit=6)[6] for line in lines[1:]] == ["about 7 s", "about 2 min", "1 not yet measured"]
    assert fakes.asked == []
    assert main(["bench", *words]) == 0
    capsys.readouterr()
    assert main(["plan", *words]) == 0
    assert capsys.readouterr().out == "suite graph: 3 cells, up to 3 runs each, about 0 s; 3 already done\n"


@pytest.mark.parametrize("name", SUITES)
def test_a_plan_makes_no_data(name, tmp_path, capsys):
    assert main(["plan", f"SUITE={name}", f"RESULTS={tmp_path}", f"DATA={tmp_path / 'data'}"]) == 0
    cells = int(re.search(r"(\d+) cells", capsys.readouterr().out)[1])
    assert cells > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interrupt", ["STOP", "Ctrl-C"])
def test_what_was_measured_is_shown_when_it_is_stopped(fakes, tmp_path, capsys, monkeypatch, interrupt):
    directory = tmp_path / machine.name(machine.facts())
    if interrupt == "STOP":
        monkeypatch.setattr(control_work, "seconds", lambda: (directory / "STOP").touch() or 0.1)
    else:
        fakes.interrupted = "4-clique"
    assert main(["bench", "SUITE=graph", f"RESULTS={tmp_path}"]) == (0 if interrupt == "STOP" else 130)
    out = capsys.readouterr().out
    assert "1 cells measured; 2 left" in out
    assert "Motifs in a static graph (rmat:7)" in out


@pytest.mark.parametrize("words", [["SUITE=graph", "SF=1"], ["SUITE=shared", "SCALE=9"], ["FUEL=3"]])
@pytest.mark.parametrize("command", ["bench", "plan"])
def test_what_says_nothing_to_a_suite_is_refused(command, words, tmp_path, capsys):
    assert main([command, *words, f"RESULTS={tmp_path}"]) == 2
    assert (
        f"no setting of the suite {dict(w.split('=') for w in words).get('SUITE', 'tpch')}" in capsys.readouterr().err
    )


def test_errors_can_be_debugged_in_every_suite(tmp_path, capsys):
    assert main(["bench", "--debug", "SUITE=shared", "QUERIES=q23", f"RESULTS={tmp_path}"]) == 2
    assert "Traceback" in capsys.readouterr().err


SHOWN = {
    "graph": "Motifs in a static graph", "shared": "Shared against unshared",
    "loops": "Distances over a random graph",
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_report_shows_suites_without_records_of_tpch(name, tmp_path):
    records = {"graph": measured, "shared": lambda: [load()], "loops": distances}[name]()
    with store.writing(tmp_path / "machine") as writer:
        add(writer, records)
        writer.add_session(HEADER)
    assert main(["report", f"RESULTS={tmp_path}", "MACHINE=machine"]) == 0
    page = (tmp_path / "machine" / "report.html").read_text()
    assert SHOWN[name] in page
    assert '<section id="points">' not in page


def distances(dataset="10,000,000 nodes, 100,000,000 edges, 1 roots"):
    """Return a record as of the suite of loops."""
    whole = {"index": 1.0, "scratch": 20.16, "attached": 3.075, "index_bytes": 1e6, "more_bytes": 40, "reached": 10}
    figures = {"distances": {**whole, "farthest": 5}, "100": {"batches": 4, "seconds": 0.5}}
    rows = [TableRow(row, {name: [each] for name, each in of_row.items()}) for row, of_row in figures.items()]
    return [
        TableRecord(
            suite="loops", dataset=dataset, table="distances", cell="x", session="session", finished_at="now",
            verified="numpy", rows=tuple(rows),
        )
    ]  # fmt: skip


def test_distances_stand_beside_those_of_the_post_on_the_same_graph():
    speed, _, updates = suite_tables(distances(), "loops")
    assert [[entry.text for entry in row] for row in speed.rows] == [
        ["the index alone", "1 s", "-", "-"], ["from scratch", "20.2 s", "10.1 s", "0.50x"],
        ["attachment", "3.08 s", "6.15 s", "2.00x"],
    ]  # fmt: skip
    assert [entry.text for entry in updates.rows[0]] == ["100", "4", "125 ms", "800/s"]
    other = suite_tables(distances("5 nodes, 6 edges, 1 roots"), "loops")[0]
    assert [row[-1].text for row in other.rows] == ["-", "-", "-"]


def load(**changes):
    figures = {f"{side}_{what}": [4.0] for side in ("together", "alone") for what in ("rows", "bytes", "peak")}
    figures |= {"together_seconds": [1.0, 2.0], "alone_seconds": [2.0, 8.0], "tuples": [50], **changes}
    return record(
        "1 x 1000", figures, suite="shared", dataset="SF 1", table="loads", cell="x", session="session",
        verified="oracle",
    )  # fmt: skip


def test_sharing_is_told_by_the_median_of_pairs():
    loads, state = suite_tables([load(together_bytes=[2e6])], "shared")
    assert texts(loads) == [["1 x 1000", brief(1).text, "50/s", "2 s", "0.38x"]]
    assert texts(state) == [["together", "4", "2", "0"], ["alone, sum", "4", "0", "0"]]
