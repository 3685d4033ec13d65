"""Files of SQL are queries of the commands."""

from __future__ import annotations

import pytest

from deltamark.harness.cli.main import main

COUNT = "SELECT o_orderpriority, count(*) AS orders, avg(o_totalprice) AS mean FROM orders GROUP BY o_orderpriority;"


@pytest.fixture
def run(data, capsys):
    def run(*words, **settings):
        given = [
            word for name, value in {"sf": "0.001", "data": data, **settings}.items() for word in (f"--{name}", value)
        ]
        code = main([*map(str, words), *map(str, given)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def file(tmp_path):
    def file(text, name="mine.sql"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


def test_the_answers_of_a_file_are_checked(run, file):
    settings = {"workload": "window:300", "logical": "1,100", "times": "5", "physical": "7,all"}
    code, out, _ = run("verify", sql=file(COUNT), **settings)
    assert (code, out.splitlines()[-1]) == (0, "2 checked, 0 wrong")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT date_trunc('month', o_orderdate) AS month, count(*) AS orders FROM orders GROUP BY 1",
        "SELECT max(o_orderdate) + INTERVAL 1 DAY AS next, min(o_orderdate) AS first FROM orders",
    ],
)
def test_a_timestamp_at_midnight_is_a_date(run, file, text):
    code, out, _ = run("verify", sql=file(text), workload="window:300", logical="100", times="5")
    assert (code, out.splitlines()[-1]) == (0, "1 checked, 0 wrong")


def test_a_key_of_the_specification_that_rows_break_changes_no_answer(run, file):
    """At scale factor 0.001 a supplier has some parts twice."""
    same = "a.ps_partkey = b.ps_partkey AND a.ps_suppkey = b.ps_suppkey"
    text = f"SELECT count(*) AS n FROM partsupp AS a, partsupp AS b WHERE {same}"
    code, out, _ = run("verify", sql=file(text), workload="slide:300", logical="100", times="5")
    assert (code, out.splitlines()[-1]) == (0, "1 checked, 0 wrong")


def test_a_file_has_a_plan_and_a_change_stream(run, file):
    code, out, _ = run("explain", sql=file(COUNT))
    assert code == 0
    assert "aggregate by o_orderpriority" in out
    code, out, _ = run("changes", sql=file(COUNT), logical=1000)
    assert code == 0
    assert out.startswith("time,diff,o_orderpriority,orders,mean.num,mean.den\n")


def test_the_position_of_a_file_or_the_setting_name_the_query(run, file):
    path = file(COUNT)
    assert run("changes", path, "--digest") == run("changes", "--digest", sql=path)


def test_braces_in_a_text_are_no_parameters(run, file):
    code, out, _ = run("changes", sql=file("SELECT count(*) AS n FROM nation WHERE n_name <> '{x}'"), logical=1000)
    assert (code, out.splitlines()[-1].split(",")[1:]) == (0, ["1", "25"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no SQL in a file"),
        ("SELECT n_nam FROM nation", 'Referenced column "n_nam" not found'),
        ("SELECT * FROM nations", "unknown relation: nations (line 1, column 15); did you mean nation"),
        ("SELEC 1", "not a query: syntax error"),
        ("SELECT ntile(n_regionkey) OVER () FROM nation", "the window function ntile (line 1, column 8)"),
    ],
)
def test_a_text_that_is_no_query_is_one_line(run, file, text, problem):
    code, out, err = run("changes", sql=file(text))
    assert (code, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_a_text_that_is_no_query_is_one_line_before_anything_is_measured(run, file, tmp_path):
    code, out, err = run("bench", sql=file("SELECT n_nam FROM nation"), results=tmp_path / "results")
    assert (code, out) == (2, "")
    assert 'Referenced column "n_nam" not found' in err
    assert err.count("\n") == 1


def test_a_file_that_is_no_text_is_one_line(run, tmp_path):
    path = tmp_path / "mine.sql"
    path.write_bytes(b"\xff\xfe\x00")
    code, out, err = run("explain", sql=path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "not a text in UTF-8" in err


def test_a_file_must_exist_and_have_the_ending_of_sql(run, file, tmp_path):
    code, _, err = run("changes", sql=tmp_path / "none.sql")
    assert code == 2
    assert "No such file" in err
    code, _, err = run("verify", sql=file(COUNT, "mine.txt"))
    assert code == 2
    assert "not the name of a file of SQL" in err


def test_a_command_without_a_query_says_so(run):
    code, _, err = run("changes")
    assert code == 2
    assert "no query" in err
