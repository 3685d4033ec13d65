"""The suite of window functions, over small partitions."""

from __future__ import annotations

import re

import pytest
from support.harness.local_tasks import tasks_in_process
from support.harness.suite_records import record, suite_tables, texts

from deltamark.datagen.windows import CYCLE, CYCLES, PLACES, changes, sales
from deltamark.harness.check import run_check
from deltamark.harness.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Return the beginning of a command, over data that is made."""
    data = tmp_path_factory.mktemp("data")
    words = ["bench", "SUITE=windows", f"DATA={data}", "SIZES=10,100"]
    with tasks_in_process():
        assert main([*words, "QUERIES=lag", "ENGINES=duckdb", f"RESULTS={tmp_path_factory.mktemp('results')}"]) == 0
    return words


@pytest.mark.parametrize("rows", [10, 1000])
def test_a_round_has_one_change_at_the_end_or_in_the_middle(rows):
    table, stream = sales(rows).to_pydict(), changes(rows).to_pydict()
    live, last = {}, 10 * (rows - 1)
    assert stream["round"] == [0] * rows + [*range(1, 1 + CYCLE * CYCLES)]
    for row, diff, round_ in zip(*stream.values(), strict=True):
        placed = table["placed"][row]
        if diff > 0:
            assert placed not in live.values()
            live[row] = placed
        else:
            del live[row]
        if round_:
            assert (placed > last) == (PLACES[(round_ - 1) % CYCLE // 2] == "end")
            assert placed > last or last / 5 < placed < 4 * last / 5
    assert sorted(live) == [*range(rows)]


def test_a_change_at_the_end_costs_few_changes_and_one_in_the_middle_those_behind_it(words, tmp_path, capsys):
    assert main([*words, "QUERIES=row_number,lag", f"RESULTS={tmp_path}"]) == 0
    out = capsys.readouterr().out
    rows = re.findall(r"^(\S+) +(end|middle) +(embedded|duckdb) .* ([\d-]+)$", out, re.MULTILINE)
    changed = {row[:3]: row[3] for row in rows}
    assert len(changed) == 2 * 2 * 2
    assert changed["row_number", "end", "embedded"] == changed["lag", "end", "embedded"] == "1"
    assert changed["lag", "middle", "embedded"] == "7"
    assert int(changed["row_number", "middle", "embedded"]) > 40
    assert changed["lag", "end", "duckdb"] == "-"
    assert "row_number embedded 100" in out
    assert out.count("checked oracle") == 8


def test_a_wrong_answer_is_found(words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run_check.Snapshot, "answer", lambda *_: [("wrong",)])
    assert main([*words, "QUERIES=lag", "ENGINES=embedded", "SIZES=10", f"RESULTS={tmp_path}"]) == 2
    assert "WRONG: a wrong answer: lag, changes, L=1, P=1, 1 worker, embedded, " in capsys.readouterr().err


def test_growth_is_relative_to_the_logarithm():
    figures = {10: (1.0, 1.0), 1000: (3.0, 9.0)}
    found = [
        record(f"lag mine {size}", {"end": [end], "middle": [middle]}, suite="windows", table="windows", cell=str(size))
        for size, (end, middle) in figures.items()
    ]
    (table,) = suite_tables(found, "windows")
    assert [row[-2:] for row in texts(table)] == [["1.00x", "-"], ["3.00x", "-"]]
    found[1] = record("lag mine 1000", suite="windows", table="windows", cell="1000", status="timeout", limit=5.0)
    (table,) = suite_tables(found, "windows")
    assert [row[3:] for row in texts(table)] == [["1.00 s", ">5s", "-", "-"]] * 2
