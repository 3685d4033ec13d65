"""The command history: its table, its page, and its errors."""

from __future__ import annotations

import re

import pytest
from support.harness.history_records import commit_name, git, history_of, measured, noisy_step, write
from support.harness.records import changed

from deltamark.harness.cli.main import main
from deltamark.harness.report.sections.history import history_page
from deltamark.harness.results.record import PROJECT

SLOWER, FASTER = noisy_step(2, 24, 14, 1.2), noisy_step(2, 24, 9, 0.8)
RECORDS = [
    *measured(SLOWER),
    *measured(FASTER, cell="tpch q04", query="q04"),
    *measured(SLOWER, "other machine")[20:],
    changed(measured(SLOWER)[5], commit=f"{commit_name(5)}+", key="edited"),
]


@pytest.fixture
def results(tmp_path):
    """A clone of this project's repository, by its name, with records on a branch and in a directory."""
    clone = tmp_path / PROJECT
    write(clone / "results", RECORDS)
    git(clone, "init", "--initial-branch=main")
    git(clone, "commit", "--allow-empty", "--message=without records")
    git(clone, "checkout", "--quiet", "-b", "measured")
    git(clone, "add", "results")
    git(clone, "commit", "--message=records")
    return clone


def history(results, *words):
    output = results / "output" / "history.html"
    repository = [f"REPO={results}", f"RESULTS={results / 'results'}", f"OUTPUT={output}"]
    code = main(["history", *repository, *words])
    return code, output.read_text() if output.exists() else ""


def test_the_table_and_the_page_have_each_step(results, capsys):
    code, html = history(results)
    printed = capsys.readouterr().out
    assert code == 0
    for commit, direction in ((commit_name(14), "slower"), (commit_name(9), "faster")):
        assert re.search(rf"{commit} +2026-01-\d\d +[+-]\d\d\.\d% {direction}", printed)
        assert re.search(rf'class="label[^>]*>{commit}, [+-]\d\d%<', html)
    assert "2 steps\n" in printed
    assert "53 records: 2 cells, 25 commits, 2 machines; from 0000001 (2026-01-01) to 0000018 (2026-01-24)" in printed


def test_a_branch_has_the_same_page_as_its_directory(results):
    assert history(results, "BRANCH=measured") == history(results)


def test_panels_show_intervals_levels_edits_and_machines():
    html = history_page(history_of(RECORDS))
    first, second = re.findall(r'<figure class="panel".*?</figure>', html, re.DOTALL)
    assert (first.count('class="range"'), second.count('class="range"')) == (24 + 5, 24)
    assert (first.count('class="level"'), second.count('class="level"')) == (3, 2)
    assert (first.count("vertical machine"), second.count("vertical machine")) == (1, 0)
    assert f"{commit_name(5)}+" in re.search(r'class="series look0 hollow".*?</circle>', first, re.DOTALL)[0]
    assert f"make compare BASE={commit_name(13)} HEAD={commit_name(14)} SF=1 QUERIES=q01" in first
    assert not re.search(r"https?:|url\(|@import", html)


def test_the_page_of_one_commit_has_a_panel():
    assert '<figure class="panel"' in history_page(history_of(RECORDS[:1]))


def test_queries_and_scale_factors_select_cells(results, capsys):
    code, html = history(results, "QUERIES=q04", "SF=1")
    assert (code, html.count("<figure")) == (0, 1)
    assert "1 step\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["BRANCH=mesured"], "no such commit: mesured; did you mean measured"),
        (["BRANCH=main"], "no records.jsonl in a branch: main; "),
        (["RESULTS=/nowhere"], "no records.jsonl in a directory: /nowhere; "),
        (["QUERIES=q4"], "unknown query: q4; did you mean q04"),
        (["SF=3"], "unknown scale factor: 3; there are 1"),
        (["REPO=/", "BRANCH=measured"], "git rev-parse stopped: .*not a git repository"),
    ],
)  # fmt: skip
def test_errors_name_the_cause(results, capsys, words, error):
    code, html = history(results, *words)
    assert (code, html) == (2, "")
    assert re.search(f"error: {error}", capsys.readouterr().err)


def test_records_that_are_left_out_are_counted(results, capsys):
    failed = [changed(each, status="failed", seconds=[], key="failed") for each in RECORDS[:3]]
    write(results / "results" / "more", failed)
    assert history(results)[0] == 0
    assert "3 records are left out: " in capsys.readouterr().err
    write(results / "failed", failed)
    assert main(["history", f"RESULTS={results / 'failed'}"]) == 2
    assert "no records with numbers and a commit" in capsys.readouterr().err
