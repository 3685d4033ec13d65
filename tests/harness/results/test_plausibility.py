"""The times of honest engines are plausible, also on a busy machine; times that leave out the work are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.harness.records import changed
from support.harness.table_records import record

from deltamark.harness.console.table import FORMATS
from deltamark.harness.report.page import ReportData, page
from deltamark.harness.results.plausibility import REQUEST_CPU_S, REQUEST_WAIT_S, Account, doubt, doubt_of
from deltamark.harness.results.record import EngineInfo
from deltamark.harness.suites.plan import Estimate
from deltamark.harness.suites.reporter import Reporter, outcome_line
from deltamark.harness.tables.tpch import summary, tables

RIGHT = Account(
    workers=1, tuples=6_000_000, requests=60, reported=2.0, seen=2.1, untimed=1.0, timed_cpu=2.05, untimed_cpu=0.8
)
"""An engine of one thread, in batches of 100,000 rows on an idle machine."""

HONEST = {
    "one thread on an idle machine": RIGHT,
    "one of fifteen processes on a core": replace(RIGHT, reported=30.0, seen=31.5, untimed=15.0),
    "a pipe that takes longer than the batches": replace(
        RIGHT, tuples=10_000, requests=10_000, reported=0.02, seen=1.5, untimed=3.0, timed_cpu=0.6, untimed_cpu=1.5
    ),
    "the same on a busy machine": replace(
        RIGHT, tuples=10_000, requests=10_000, reported=0.02, seen=200.0, untimed=300.0, timed_cpu=1.5, untimed_cpu=4.0
    ),
    "four threads of two workers": replace(RIGHT, workers=2, timed_cpu=8.0),
    "compilation beside the first batches": replace(RIGHT, requests=6, reported=1.0, seen=1.1, timed_cpu=3.5),
    "conversion of many columns, of which a filter leaves few": replace(
        RIGHT, tuples=1_300_000, requests=11, reported=0.0052, seen=0.02, untimed=0.8, timed_cpu=0.015, untimed_cpu=0.45
    ),
    "conversion row by row": replace(RIGHT, reported=0.1, seen=0.11, timed_cpu=0.1, untimed=9.0, untimed_cpu=8.5),
    "merging after the reply": replace(RIGHT, untimed_cpu=5.0, untimed=4.0),
    "loading code for the first answer, which is large": replace(RIGHT, answer_cpu=1.4, answer_rows=10_000),
    "waiting for timers": replace(RIGHT, reported=6.0, seen=6.1, timed_cpu=0.1, untimed_cpu=0.05),
    "an unknown CPU time": replace(RIGHT, timed_cpu=0.0, untimed_cpu=0.0),
}


@pytest.mark.parametrize("name", HONEST)
def test_the_times_of_an_honest_engine_are_plausible(name):
    assert doubt(HONEST[name]) == ""


UNTRUE = {
    "107.14G/s is more than a processor can read": replace(RIGHT, reported=5.6e-5),
    "it used 2.05 s of CPU time in the clock, and reports 6 \u00b5s": replace(RIGHT, tuples=20_000, reported=6e-6),
    "it used 2.85 s of CPU time outside the clock and 6 ms in it, and reports 600 \u00b5s": replace(
        RIGHT, reported=6e-4, tuples=1_000_000, seen=0.01, timed_cpu=0.006, untimed_cpu=2.85
    ),
    "it used 2.85 s of CPU time outside the clock and 6 ms in it, and reports 2 s": replace(
        RIGHT, timed_cpu=0.006, untimed_cpu=2.85
    ),
    "it used 2.85 s of CPU time outside the clock and 100 ms in it, and reports 600 \u00b5s": replace(
        RIGHT, reported=6e-4, tuples=1_000_000, seen=0.2, timed_cpu=0.1, untimed_cpu=2.85
    ),
    "its replies took 30 s, and it reports 2 s": replace(RIGHT, seen=30.0),
    "it used 2.5 s of CPU time for the answer after the last batch, and reports 33.3 ms for a batch": replace(
        RIGHT, answer_cpu=2.5, answer_rows=4
    ),
    "it let the harness wait for 61 s, and used 80 ms of CPU time": replace(
        RIGHT, reported=60.0, seen=60.0, timed_cpu=0.06, untimed_cpu=0.02
    ),
    "it let the harness wait for 61 s, and used 80 ms of CPU time ": replace(
        RIGHT, tuples=1000, reported=6e-6, seen=1.0, untimed=60.0, timed_cpu=0.06, untimed_cpu=0.02
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", UNTRUE)
def test_a_time_without_the_work_is_not_plausible(reason):
    """Nothing but the sum of all work is hidden: in the pipe, in feed, after the reply, beside sleep, or elsewhere."""
    assert doubt(UNTRUE[reason]) == reason.strip()


@pytest.mark.parametrize("name", HONEST)
def test_many_more_requests_or_a_busier_machine_cast_no_doubt(name):
    run = HONEST[name]
    for requests in (0, 10_000):
        free = {"timed_cpu": REQUEST_CPU_S / 2, "untimed_cpu": REQUEST_CPU_S / 2, "seen": REQUEST_WAIT_S / 2}
        more = {figure: getattr(run, figure) + requests * each for figure, each in free.items()}
        assert doubt(replace(run, **more, requests=run.requests + requests)) == ""
    assert doubt(replace(run, reported=3 * run.reported, seen=3 * run.seen, untimed=3 * run.untimed)) == ""


ENGINE = EngineInfo("Mine 1.0", "digest", "stream")
ACCOUNT = {"outside": [2.0], "untimed": [1.0], "timed_cpu": [2.0], "untimed_cpu": [0.5], "requests": 60}


def mine(query, took, **changes):
    made = record(query, 1, 1000, took, engine="mine=exec:./it")
    return changed(made, external=ENGINE, **(ACCOUNT | changes))


TRUE, LIE, OURS = mine("q01", 1.0), mine("q02", 1e-6), [record(name, 1, 1000, 0.5) for name in ("q01", "q02")]
REASON = "6,000.00G/s is more than a processor can read"


def test_the_fastest_run_of_a_record_is_judged():
    assert doubt_of(TRUE) == ""
    assert doubt_of(LIE) == REASON
    runs = {name: [*ACCOUNT[name], *ACCOUNT[name]] for name in ACCOUNT if name != "requests"}
    assert doubt_of(mine("q01", 1.0, **runs, seconds=[1.0, 1e-3])).startswith("6.00G/s")


def test_records_of_older_code_of_our_engines_and_without_numbers_cast_no_doubt():
    older = {name: [] for name in ACCOUNT if name not in ("outside", "requests")} | {"requests": 0}
    assert doubt_of(mine("q01", 0.01, **older)) == ""
    assert doubt_of(changed(LIE, external=None)) == ""
    assert doubt_of(changed(LIE, status="wrong")) == ""


def test_tables_mark_a_time_that_is_not_plausible_and_say_why():
    made = {each.name: each for each in tables([*OURS, TRUE, LIE], "1")}
    rates, means = made["engines-1x1000"], made["engines"]
    assert [row[2].text for row in rates.rows] == ["1.00x", "1.00x"], "relative to the fastest that is plausible"
    are_marked = [[entry.text.endswith(" ~") for entry in row] for row in rates.rows]
    assert are_marked == [[False] * 5, [False] * 3 + [True] * 2]
    assert [row[0].text for row in means.rows if row[2].text.endswith(" ~")] == ["mine"]
    for table in (rates, means, made["physical"]):
        assert table.notes[-2:] == [
            "~: the time is not plausible; docs/benchmark.md has the rule",
            f"~ mine, 1 cell, such as q02 1 x 1000: {REASON}",
        ]  # fmt: skip
    assert "6,000.00G/s ~" in FORMATS["csv"](rates)
    assert not any(note.startswith("~") for each in tables([*OURS, TRUE], "1") for note in each.notes)


def test_the_engines_table_shows_the_cpu_time_outside_the_clock():
    (means,) = (each for each in tables([*OURS, TRUE], "1") if each.name == "engines")
    assert means.notes[-1] == (
        "mine is Mine 1.0, timed by its own clock, which leaves out 50.0% (the pipe); its CPU time outside the clock "
        "is 0.25x that within"
    )


def test_a_run_prints_the_doubt_counts_it_and_marks_the_summary(capsys):
    with Reporter(2) as reporter:
        for each in (TRUE, LIE):
            reporter.on_records([each], 0, Estimate(0.0, 0, 0))
    honest, other = capsys.readouterr().out.replace("\n    ", " ").splitlines()
    assert "plausible" not in honest
    assert f"not plausible: {REASON}" in other
    assert outcome_line([[TRUE], [LIE]], 0) == "2 cells measured; 1 with a time that is not plausible"
    shown = summary([TRUE, LIE], "1")
    assert [entry.text.endswith(" ~") for entry in shown.rows[0]] == [False, False, True, False, True]
    assert shown.notes[-1].endswith(REASON)


def test_the_report_lists_the_cells_with_their_reasons():
    html = page(ReportData([*OURS, TRUE, LIE], {}, "m", "1"))
    assert "Of 2 cells of external engines, the times of 1 is not plausible." in html
    assert html.count(REASON) >= 2
    assert "Times that are not plausible" not in page(ReportData([*OURS, TRUE], {}, "m", "1"))
