"""The checks find wrong answers and print the command that reproduces them; the oracle has exactly the live rows."""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from random import Random

import numpy as np
import pytest

from deltamark.datagen.feed import TIMES_PER_ROUND, Feed
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import ALL, Cell
from deltamark.harness.check import change_stream, verify
from deltamark.harness.check.answers import difference, unordered_difference
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.cli.main import main


def off_by_one(tpch, *, date, discount, quantity):
    return benchmark().queries["q06"].variants["plain"](tpch, date=date, discount=discount, quantity=quantity + 1)


@pytest.fixture
def wrong(monkeypatch):
    """Return Q6 with a variant whose quantity bound is off by one."""
    right = benchmark().queries["q06"]
    variants = {"plain": right.variants["plain"], "wrong": off_by_one}
    monkeypatch.setitem(benchmark().queries, "q06", replace(right, variants=variants))


@pytest.mark.usefixtures("wrong")
def test_a_wrong_answer_is_found_with_both_rows_and_the_command(chunked):
    cell = Cell("q06", "0.001", "refresh:3", variant="wrong")
    last = (workload(chunked, cell.workload).rounds - 1) * TIMES_PER_ROUND + 7
    assert verify.check_answers(cell.but(variant=""), chunked, [0, last]) == ""
    said = verify.check_answers(cell, chunked, [0, last]).splitlines()
    assert said[0].startswith("q06 (wrong), refresh:3, L=1, P=all, 1 worker, embedded: wrong at time ")
    assert [line.split()[0] for line in said[1:4]] == ["row", "ours", "DuckDB"]
    assert said[4].strip() == (
        f"python -m harness answer q06 --sf 0.001 --workload refresh:3 --logical 1 --physical all --variant wrong "
        f"--at {last}"
    )


@pytest.mark.usefixtures("wrong")
def test_a_different_stream_is_found_with_its_first_difference(chunked):
    reference = verify.run_stream(Cell("q06", "0.001"), chunked)
    said = verify.check_digest(reference, reference.cell.but(variant="wrong"), chunked)
    assert "another stream than q06, insert, L=1, P=all" in said
    assert "more in the first stream, of " in said
    assert "DuckDB's answer at that time is that of q06, insert, L=1, P=all, 1 worker, embedded\n" in said
    wrong = verify.run_stream(reference.cell.but(variant="wrong"), chunked)
    said = verify.check_digest(wrong, reference.cell, chunked)
    assert "DuckDB's answer at that time is that of q06, insert, L=1, P=all, 1 worker, embedded\n" in said
    coarse = verify.run_stream(Cell("q06", "0.001", logical=10, variant="wrong"), chunked)
    assert "not the stream of L=1 in larger steps" in verify.check_logical(reference, coarse)


@pytest.mark.usefixtures("wrong")
def test_the_command_exits_2_and_goes_on(capsys, data):
    words = f"verify q06 q14 --sf 0.001 --data {data} --workload insert --logical 1000 --times 3"
    assert main(shlex.split(words)) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("q06 insert L=1000: WRONG (")
    assert said[-2].startswith("q14 insert L=1000: right (")
    assert said[-1] == "2 checked, 1 wrong"


def test_only_a_timestamp_at_midnight_equals_a_date():
    mine = [(date(2001, 2, 3),), (None,)]
    for hour, is_equal in ((0, True), (1, False)):
        theirs = [(datetime(2001, 2, 3, hour),), (None,)]  # noqa: DTZ001 (DuckDB's have no time zone)
        assert (difference(mine, theirs) == "") == is_equal
        assert (unordered_difference(mine, theirs, 0) == "") == is_equal


def test_a_decimal_of_enough_places_stands_for_a_double_that_it_rounds():
    for mine, is_equal in (
        ("0.3333", True),
        ("0.333333", True),
        ("0.33", False),
        ("0.3331", False),
        ("0.333335", False),
    ):
        assert (unordered_difference([(Decimal(mine),)], [(1 / 3,)], 0) == "") == is_equal, mine
    assert unordered_difference([(0.3333,)], [(1 / 3,)], 0)


def test_every_time_lists_the_times_at_which_a_relation_changes(chunked):
    cell, work = Cell("q14", "0.001", "window:900", 400), workload(chunked, "window:900")
    times = verify.every_time(work, ["lineitem", "part"], cell.logical)
    assert times == [1, 4, 9, 17, 25]
    assert verify.check_answers(cell, chunked, times) == ""


@pytest.mark.parametrize("name", list(RELATIONS))
def test_random_times_are_at_most_all_times(chunked, name):
    work = workload(chunked, "window:20")
    times = verify.random_times(work, [name], 1000, 100, Random(1))
    assert times[0] == 0
    assert times[-1] == 15


LIVE = {
    "insert": 1, "window:100": 7, "refresh:4": 10, "slide:900": 7, "late:500": 7, "update:9": 1, "churn:9": 1,
    "zipf:1": 7,
}  # fmt: skip


@pytest.mark.parametrize("name", LIVE)
def test_the_oracle_has_exactly_the_live_rows(chunked, name):
    work, logical = workload(chunked, name), LIVE[name]
    deltas = Feed(work, dict.fromkeys(RELATIONS, ()), logical=logical).take(ALL)
    last = (work.rounds - 1) // logical * TIMES_PER_ROUND
    keys = {name: (RELATIONS[name].columns[0].name,) for name in RELATIONS}
    with closing(Oracle(work, keys, logical)) as oracle:
        for time in (0, 1, last // 3, last // 2 + 1, last - 4, last + 7):
            oracle.at(time)
            for delta in deltas:
                live = Counter()
                for row, at, diff in zip(delta.rows, delta.time.tolist(), delta.diff.tolist(), strict=True):
                    live[row] += diff * (at <= time)
                key = RELATIONS[delta.relation].prefix + keys[delta.relation][0]
                rows = [row for row, weight in live.items() if weight]
                numbers = work.dataset.numbers(delta.relation, np.array(rows, dtype=np.int64))
                wanted = work.dataset.table(delta.relation).column(0).to_numpy()[numbers].tolist()
                found = oracle.answer(f"SELECT {key} FROM {delta.relation}")
                assert Counter(value for (value,) in found) == Counter(wanted)


def test_a_stream_ends_after_rounds_or_at_a_time(chunked):
    work = workload(chunked, "insert")
    assert change_stream.end_after_rounds(work, 7, 14) == change_stream.End(14, 15)
    assert change_stream.end_at_time(work, 7, 9) == change_stream.End(14, 9)
    with pytest.raises(DeltamarkError, match="13 rounds; give 7 or 14"):
        change_stream.end_after_rounds(work, 7, 13)
    with pytest.raises(DeltamarkError, match="no such time in this stream: -1; ask for one from 0 to"):
        change_stream.end_at_time(work, 7, -1)


ANSWERS = {
    "q06 --rounds 0 --format csv": 'revenue\n""\n',
    "q06 --at 0 --format json": '[\n  {"revenue": null}\n]\n',
    "q01 --rounds 1 --format csv": (
        "returnflag,linestatus,sum_qty,sum_base_price,sum_disc_price,sum_charge,avg_qty,avg_price,avg_disc,count_order\n"
        "N,O,17.00,24710.35,23721.9360,24196.374720,17.0,24710.35,0.04,1\n"
    ),
    "q03 --rounds 1 --format csv": "orderkey,revenue,orderdate,shippriority\n",
    "q03 --rounds 1 --format json": "[]\n",
}


@pytest.mark.parametrize("words", ANSWERS)
def test_answers_are_printed_in_several_formats(capsys, data, words):
    assert main(shlex.split(f"answer {words} --data {data}")) == 0
    assert capsys.readouterr().out == ANSWERS[words]


def test_a_table_has_all_rows_and_their_number(capsys, data):
    assert main(shlex.split(f"answer q12 --data {data}")) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["shipmode", "high_line_count", "low_line_count"]
    assert said[2].split() == ["MAIL", "64", "86"]
    assert said[-1] == "(2 rows)"


def test_the_sql_and_the_plan_are_printed(capsys, data):
    assert main(["sql", "q11", "--sf", "0.5"]) == 0
    assert "* 5000.0 > (" in capsys.readouterr().out
    assert main(shlex.split(f"explain q06 --data {data} --sf 0.001 --rounds 100")) == 0
    titles, answer, *_ = capsys.readouterr().out.splitlines()
    assert titles.endswith("plan")
    assert "answer: revenue" in answer


WRONG_WORDS = {
    "answer q77": "error: unknown query: q77; did you mean q07, q17",
    "answer q04 --variant planed": "error: unknown variant: planed; did you mean plain",
    "answer q04 --param dat=3": "error: unknown parameter of q04: dat; did you mean date",
    "answer q04 --param date": "error: not a parameter: 'date'; write --param name=value",
    "answer q04 --rounds 13 --logical 7": "error: no boundary of logical batches of 7: 13 rounds; give 7 or 14",
    "answer q04 --physical 0": "error: not a whole number: '0'; write one from 1 to 1000000000000",
    "answer q04 --engine sparc": "error: unknown engine: sparc; did you mean spark",
    "verify q77": "error: unknown query: q77; did you mean q07, q17",
    "verify q04 --workload windo:3": "error: unknown workload: windo:3; did you mean",
    "golden --sf 1": "error: golden digests exist for one scale factor: 1; leave it at 0.01",
}


@pytest.mark.parametrize("words", WRONG_WORDS)
def test_a_wrong_setting_is_reported_in_one_line(capsys, data, words):
    assert main([*words.split(), "--data", str(data)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(WRONG_WORDS[words])
    assert errors.count("\n") == 1
