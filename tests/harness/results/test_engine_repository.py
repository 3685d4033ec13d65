"""An engine in a repository of its own is measured at each commit; its history and its exports are of these commits."""

from __future__ import annotations

import math
import re
import subprocess

import pytest
from support.harness.command_line import error_line
from support.harness.engine_repository import BUILD, engine_repository
from support.harness.export_schemas import asv_files, bencher_benchmarks, github_entries
from support.harness.history_records import git, noisy_step
from support.harness.near_server import Near
from support.harness.programs import EXAMPLE, example_in_thread

from deltamark.harness.cli.main import main
from deltamark.harness.results import store
from deltamark.harness.results.commits import repository_name
from deltamark.harness.suites import throughput
from deltamark.harness.suites.registry import SUITES, WindowSuite
from deltamark.harness.suites.reporter import session_header
from deltamark.harness.system import machine

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

FASTEST_S, COMMITS, STEP, RATIO = 0.002, 12, 6, 1.5
SECONDS = [round(FASTEST_S * math.exp(log), 6) for log in noisy_step(3, COMMITS, STEP, RATIO)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory, data):
    """Build and measure each commit of a repository as its users do; return the repository, records and names."""
    place = tmp_path_factory.mktemp("history")
    repository, results = engine_repository(place / "mine", SECONDS), place / "results"
    commits = git(repository, "rev-list", "--reverse", "main").splitlines()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(throughput, "MeasurementClient", Near)
        example_in_thread(patched)
        for commit in commits:
            git(repository, "checkout", "--quiet", commit)
            subprocess.run(BUILD, shell=True, cwd=repository, check=True)
            assert bench(repository, results, data) == 0
        assert bench(repository, results, data) == 0  # measures nothing again
    return repository, results, [commit[:12] for commit in commits]


def bench(repository, results, data):
    cells = ["SF=0.001", f"DATA={data}", "QUERIES=q06", "WORKLOAD=insert", "PHYSICAL=100000", "RUNS=1"]
    engine = [f"ENGINES=embedded,mine=exec:{repository / 'engine.py'}", f"REPO={repository}"]
    return main(["bench", *cells, *engine, f"RESULTS={results}"])


def records(results):
    return store.read(results / machine.name(machine.facts())).records


def test_each_commit_has_a_record_of_the_program_alone(measured):
    _, results, commits = measured
    ours, *theirs = sorted(records(results), key=lambda each: each.engine != "embedded")
    assert (ours.engine, ours.repository, ours.commit) == ("embedded", "deltamark", machine.commit())
    assert [(each.repository, each.commit, each.status, max(each.seconds)) for each in theirs] == [
        ("mine", commit, "ok", seconds) for commit, seconds in zip(commits, SECONDS, strict=True)
    ]


def test_the_header_of_a_session_has_the_commits_of_both_repositories(measured):
    _, results, commits = measured
    *_, header = store.sessions(results / machine.name(machine.facts())).values()
    assert session_header(header).endswith(f"; commit {machine.commit()}, mine {commits[-1]}")


@pytest.mark.parametrize("of_program", [True, False])
def test_a_history_has_the_commits_of_one_repository(measured, tmp_path, capsys, of_program):
    repository, results, commits = measured
    of = [f"REPO={repository}"] if of_program else []
    assert main(["history", f"RESULTS={results}", f"OUTPUT={tmp_path / 'page.html'}", *of]) == 0
    title, shown = ("mine", "12 records: ") if of_program else ("deltamark", "1 record: ")
    hidden = "1 record of other repositories: deltamark" if of_program else "12 records of other repositories: mine"
    printed, page = capsys.readouterr().out, (tmp_path / "page.html").read_text()
    assert shown in printed
    assert f"not shown: {hidden}\n" in printed
    assert f"<title>{title}, history</title>" in page
    assert [commit[:7] in page for commit in (commits[0], machine.commit())] == [of_program, not of_program]


def test_the_report_has_a_history_of_each_repository(measured, tmp_path):
    _, results, _ = measured
    where = [f"RESULTS={results}", f"MACHINE={machine.name(machine.facts())}", f"OUTPUT={tmp_path / 'page.html'}"]
    assert main(["report", "SF=0.001", *where]) == 0
    titles = re.findall(r"<h2>(History[^<]*)</h2>", (tmp_path / "page.html").read_text())
    assert titles == ["History of mine"], "this project has one commit"


def test_a_history_without_records_of_its_repository_names_the_others(measured, tmp_path, capsys):
    _, results, _ = measured
    other = engine_repository(tmp_path / "other", SECONDS[:1])
    errors = error_line(capsys, ["history", f"RESULTS={results}", f"REPO={other}"])
    assert "no records of the repository other: there are some of deltamark, mine; name it: REPO=DIR" in errors


@pytest.mark.parametrize("kind", [each for each in SUITES.values() if "engines" in each.settings()])
def test_in_every_suite_programs_alone_are_of_the_repository(tmp_path, kind):
    repository = engine_repository(tmp_path / "mine", SECONDS[:1])
    queries = ("lag",) if kind is WindowSuite else ("q06", "q01")  # the second one is attached to the first
    settings = {"data": tmp_path, "queries": queries, "engines": ("embedded", "duckdb", EXAMPLE)}
    plan = kind.of(settings).plan([], repository=repository)
    repositories = {(cell.engine, plan.blank(cell).repository) for cell in plan.cells}
    assert repositories == {("embedded", "deltamark"), ("duckdb", "deltamark"), (EXAMPLE, "mine")}


ORIGINS = (
    "git@github.com:me/mine.git",
    "https://example.org/me/mine",
    "../mine/.git",
    "/srv/git/mine.git/",
    "host:mine",
)


def test_a_repository_has_the_name_of_its_origin_in_every_clone(tmp_path):
    place, tree = engine_repository(tmp_path / "place", SECONDS[:1]), tmp_path / "tree"
    git(place, "worktree", "add", str(tree))
    assert repository_name(place) == repository_name(tree) == "place"
    for origin in ORIGINS:
        git(place, "config", "remote.origin.url", origin)
        assert repository_name(tree) == "mine"
    assert repository_name(machine.ROOT / "tests") == "deltamark"


def test_the_step_is_found_at_its_commit(measured, tmp_path, capsys):
    repository, results, commits = measured
    assert main(["history", f"RESULTS={results}", f"REPO={repository}", f"OUTPUT={tmp_path / 'page.html'}"]) == 0
    printed = capsys.readouterr().out
    ((commit, percent, direction),) = re.findall(r"(\w+) +2026-01-\d\d +([+-]\d\d\.\d)% (slower|faster)", printed)
    assert (commit, direction) == (commits[STEP][:7], "slower")
    assert float(percent) == pytest.approx(100 * (RATIO - 1), abs=10)


@pytest.mark.parametrize(
    ("name", "schema"), [("github-action-benchmark", github_entries), ("bencher", bencher_benchmarks)]
)
def test_an_export_has_the_last_commit(measured, capsys, name, schema):
    assert main(export(measured, name, "-")) == 0
    entries = schema(capsys.readouterr().out)
    if isinstance(entries, list):
        times = [entry["value"] for entry in entries if entry["unit"] == "seconds"]
    else:
        times = [metric["value"] for metrics in entries.values() for metric in metrics.values()]
    assert SECONDS[-1] in times
    assert not {*times} & {*SECONDS[:-1]}


def test_the_export_to_asv_has_every_commit(measured, tmp_path):
    _, _, commits = measured
    assert main(export(measured, "asv", tmp_path / "asv")) == 0
    files = {str(path.relative_to(tmp_path / "asv")): path.read_bytes() for path in tmp_path.rglob("*.json")}
    _, results = asv_files(files)
    assert {name.rpartition("/")[2][:8] for name in results} == {commit[:8] for commit in commits}


def export(measured, name, output):
    repository, results, _ = measured
    where = [f"RESULTS={results}", f"MACHINE={machine.name(machine.facts())}", f"REPO={repository}"]
    return ["export", f"FORMAT={name}", *where, f"OUTPUT={output}"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["ENGINES=embedded"], "no engine of the repository: embedded; with REPO, name its program: ENGINES=exec:PROG"),
        ([], "no engine of the repository: ENGINES is not given; with REPO, name its program"),
        ([f"ENGINES={EXAMPLE}", "REPO=/"], "not a git repository"),
    ],
)
def test_errors_name_the_cause(tmp_path, capsys, words, error):
    repository = engine_repository(tmp_path / "mine", SECONDS[:1])
    assert error in error_line(capsys, ["plan", f"REPO={repository}", *words])
