"""The page of the field: right answers first, no number of a wrong one, and a record behind each number."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import pytest
from support.harness.report_records import RECORDS, REPORT, SESSIONS, record
from support.harness.site_records import MACHINES, OF_ANOTHER_BENCHMARK, OTHER, field

from deltamark.harness.cli.main import main
from deltamark.harness.cli.results import site
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.page import page
from deltamark.harness.report.site import Site, first_page
from deltamark.harness.results.store import writing
from deltamark.harness.tables.field import ALL_QUERIES, Field, MachineRecords


@pytest.fixture(scope="module")
def of_records():
    return field()


@pytest.fixture(scope="module")
def html(of_records):
    return first_page(Site(of_records, "../..", "history.html"))


def rows(html):
    """Return the texts of the cells of the first table, by engine."""
    table = re.search(r'<table id="field">.*?</table>', html, re.DOTALL)[0]
    found = re.findall(r'<tr data-engine="([^"]*)">(.*?)</tr>', table, re.DOTALL)
    return {
        engine: [re.sub("<[^>]+>", " ", cell) for cell in re.split(r"</t[hd]>", cells)[:-1]] for engine, cells in found
    }


def test_the_first_table_begins_with_the_answers_of_every_engine(html):
    of = rows(html)
    assert {"embedded", "duckdb", "chdb-views", "differential", "turso"} <= of.keys()
    assert next(iter(of)) == "embedded"
    assert of["embedded"][1].split()[:3] == ["2", "of", "2"]
    assert "WRONG for 1" in of["chdb-views"][1]
    assert "WRONG after deletions" in of["chdb-views"][1]
    assert "1 refused" in of["chdb-views"][1]
    assert "WRONG" in of["turso"][1]
    assert "recomputes" in of["duckdb"][0]


def test_grades_of_another_benchmark_change_no_row_of_the_first_table(html):
    one, two = MACHINES
    more = replace(one, records=[*one.records, *OF_ANOTHER_BENCHMARK])
    assert rows(first_page(Site(Field([more, two]), "../..", "history.html"))) == rows(html)


def test_a_report_has_the_grades_of_its_benchmark(tmp_path):
    of_tpcds = record(benchmark="tpcds", cell="of TPC-DS")
    written(tmp_path, replace(MACHINES[0], records=[*MACHINES[0].records, of_tpcds, *OF_ANOTHER_BENCHMARK]))
    assert main(["site", "--results", str(tmp_path)]) == 0
    tables = {
        file.name: {*re.findall(r'id="table-((?:coverage|certificates)-[^"]+)"', file.read_text())}
        for file in (tmp_path / "site").glob("one-*.html")
    }
    assert tables == {
        "one-sf1.html": {"coverage-sf-0-1"}, "one-tpcds-sf1.html": {"coverage-tpcds-sf-1", "certificates-tpcds"},
    }  # fmt: skip


def test_the_page_loads_nothing(html):
    class Loads(HTMLParser):
        def handle_starttag(self, name, attributes):
            assert name not in ("link", "img", "iframe")
            assert not [key for key, _ in attributes if key == "src" or key.startswith("on")]

    Loads().feed(html)
    assert not re.search(r"https?:|url\(|@import", html)
    assert "<script>fetch" not in html


def test_each_number_links_to_its_record(html, of_records):
    links = {*re.findall(r'href="(one-sf1\.html)#([^"]+)"', html)}
    assert len(links) > 8
    report = page(REPORT)
    assert {fragment for _, fragment in links} <= {*re.findall(r'id="([^"]+)"', report)}
    keys = {scope.part.report for scope in of_records.scopes}
    assert keys == {"one-sf1.html", "two-sf1.html"}


def test_a_record_has_its_command():
    (key,) = {record.key for record in RECORDS if (record.query, record.engine) == ("q15", "embedded")
              and record.is_default and record.physical == 1}  # fmt: skip
    row = re.search(rf'<tr id="r-{key}".*?</tr>', page(REPORT), re.DOTALL)[0]
    assert "make bench SF=1 QUERIES=q15 LOGICAL=1 PHYSICAL=1 " in row


def figures(scope):
    return [
        (engine, query, figure)
        for engine, of in scope.cells.items() for query, cells in of.items() for cell in cells if cell
        for figure in cell[2] if figure
    ]  # fmt: skip


def test_a_wrong_answer_has_no_number(of_records):
    found = [each for scope in of_records.scopes for each in figures(scope)]
    texts = {query: text for _, query, (text, share, _) in found if share is None}
    assert texts == {"q21": ">600s", "q22": "WRONG"}
    assert not [query for _, query, (_, share, _) in found if share is not None and query in texts]
    (note,) = {of[ALL_QUERIES][1][1] for scope in of_records.scopes for engine, of in scope.cells.items()
               if engine == "embedded" and scope.workload == "insert" and scope.workers == 1}  # fmt: skip
    assert note == "3 of 5 queries, 1 >600s, 1 WRONG"


def test_machines_are_not_compared(of_records):
    assert len({(scope.part.machine, scope.part.directory) for scope in of_records.scopes}) == 2
    assert next(iter(rows(first_page(Site(of_records, ""))))) == "embedded"
    same = Field([MachineRecords("one", [*MACHINES[0].records, *MACHINES[1].records], MACHINES[0].sessions | OTHER)])
    assert len(same.parts) == 2


def test_shares_are_those_of_the_best_in_the_same_query(of_records):
    scope = next(each for each in of_records.scopes if each.workload == "insert" and each.workers == 1)
    shares = [share for _, _, (_, share, _) in figures(scope) if share is not None]
    assert all(0 < share <= 1 for share in shares)
    at = [each.name for each in scope.batches].index("1,000, one answer")
    of = {engine: scope.cell(engine, at)[2][0][1] for engine in ("embedded", "duckdb")}
    assert of == {"embedded": 1, "duckdb": pytest.approx(geomean([1 / 9, 1 / 9]), abs=1e-4)}
    assert scope.leader[0] == "embedded"
    assert scope.leader[1].endswith("duckdb is 9.0\u00d7 slower.")


def written(directory, of):
    with writing(directory / of.name) as writer:
        writer.add(of.records)
        for header in of.sessions.values():
            writer.add_session(header)


def test_the_command_writes_the_page_its_reports_and_the_history(tmp_path):
    for each in MACHINES:
        written(tmp_path, each)
    assert main(["site", "--results", str(tmp_path), "SOURCE=https://example.org/tree"]) == 0
    files = {file.name for file in (tmp_path / "site").iterdir()}
    assert files == {"index.html", "history.html", "one-sf1.html", "two-sf1.html"}
    html = (tmp_path / "site" / "index.html").read_text()
    assert 'href="https://example.org/tree/peers/turso/README.md"' in html
    assert {*re.findall(r'href="([\w.-]+\.html)', html)} == files - {"index.html"}


def test_records_of_a_branch_stand_beside_those_of_the_directory(tmp_path, monkeypatch):
    repository, output = tmp_path / "repository", tmp_path / "output"
    written(repository, MACHINES[1])
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", repository)
    for words in (("init", "--quiet", "-b", "benchmarks"), ("add", "."), ("commit", "--quiet", "-m", "Add records")):
        subprocess.run([*git, *words], check=True)
    written(tmp_path / "results", replace(MACHINES[0], records=MACHINES[0].records[:1]))
    monkeypatch.setattr(site, "ROOT", repository)
    words = [f"RESULTS={tmp_path / 'results'}", "BRANCH=benchmarks", f"OUTPUT={output}"]
    assert main(["site", *words]) == 0
    assert {file.name for file in output.glob("*-sf1.html")} == {"one-sf1.html", "two-sf1.html"}


def test_a_directory_without_records_is_an_error(tmp_path, capsys):
    assert main(["site", "--results", str(tmp_path)]) == 2
    assert "no records of queries" in capsys.readouterr().err


def test_contributed_records_come_after_those_of_the_project(tmp_path):
    written(tmp_path / "contributed", MACHINES[0])
    written(tmp_path, MACHINES[1])
    assert main(["site", "--results", str(tmp_path)]) == 0
    reports = [file.name for file in (tmp_path / "site").glob("*-sf1.html")]
    assert sorted(reports) == ["contributed-one-sf1.html", "two-sf1.html"]
    data = re.search(r'id="numbers">(.*?)</script>', (tmp_path / "site" / "index.html").read_text())[1]
    shown = [scope["report"] for scope in msgspec.json.decode(data)["scopes"]]
    assert list(dict.fromkeys(shown)) == ["two-sf1.html", "contributed-one-sf1.html"], "although it has fewer numbers"


def test_pages_of_the_manual_are_linked_to_if_the_site_has_it(tmp_path):
    written(tmp_path, MACHINES[1])
    (tmp_path / "site" / "manual").mkdir(parents=True)
    (tmp_path / "site" / "manual" / "index.html").touch()
    assert main(["site", "--results", str(tmp_path), "SOURCE=https://example.org/tree"]) == 0
    html = (tmp_path / "site" / "index.html").read_text()
    for address in ("manual/index.html", "manual/docs/method.html", "manual/peers/turso/index.html"):
        assert f'href="{address}"' in html
    assert 'href="https://example.org/tree/harness/engines/duckdb.py"' in html, "it has no page"


def test_small_batches_and_columns_are_those_of_several_engines():
    """Most engines have the largest batch, so it is the first choice."""
    alone = [record("q01", 1, size) for size in (1, 10, 100, 10_000)]
    two = [record("q01", 1, 1000, seconds, engine=name) for name, seconds in (("embedded", 1.0), ("duckdb", 4.0))]
    all_three = [record("q01", 100_000, 1, engine=name) for name in ("embedded", "duckdb", "spark-sql")]
    (scope,) = Field([MachineRecords("one", [*alone, *two, *all_three], SESSIONS)]).scopes
    assert scope.batches[scope.first_batch].rounds == "100,000 rounds, one answer"
    assert scope.leader == ("embedded", "6.00 M/s in batches of 1,000 rounds, insert; duckdb is 4.0\u00d7 slower.")
    assert [each.name for each in scope.batches if each.is_usual] == ["1", "1,000", "10,000", "100,000, one answer"]


def test_the_page_begins_with_the_engines_that_are_wrong_after_deletions(html):
    answers = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert re.sub("<[^>]+>", "", answers["Wrong after deletions"]).startswith("chdb-views Otherwise wrong: turso (")
    assert "Refuse deletions: spark-native." in answers["Wrong after deletions"]
    assert "duckdb" in answers["Only recompute"]
