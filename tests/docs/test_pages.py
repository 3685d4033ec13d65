"""The pages of the manual are current: links, files, figures and numbers."""

from __future__ import annotations

import re
import statistics
import xml.etree.ElementTree as ET

import pytest
from support.manual import PAGES, headings
from support.paths import ROOT

from deltamark.harness.cli.main import main
from deltamark.harness.cli.results.readme import FOLDER, PAGE, REFERENCE, section, with_tables
from deltamark.harness.report.figures import FIGURES
from deltamark.harness.results import store
from deltamark.harness.results.record import of_queries
from deltamark.harness.tables.tpch import tables

README = PAGES["README.md"]
RECORDS = ROOT / "results" / REFERENCE
REGENERATE = "make readme writes them"
FOLDERS = "datagen|dataflow|deltamark|docs|examples|harness|queries|results|tests"
NUMBER = r"\d[\d,.]*(?:x| µs| ms| MB| rows)"


def test_results_are_those_of_the_reference_records():
    assert with_tables(PAGE.read_text(encoding="utf-8"), section(RECORDS)) == PAGE.read_text(encoding="utf-8"), (
        REGENERATE
    )


def drawn(name):
    return (FOLDER / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_that_of_the_reference_records(name):
    assert FIGURES[name](store.read(RECORDS).records) == drawn(name), REGENERATE


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_two_color_schemes_and_a_description(name):
    svg = drawn(name)
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    names = [child.tag.rpartition("}")[2] for child in root]
    assert names[:2] == ["title", "desc"]
    assert "prefers-color-scheme: dark" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_alternative_texts_have_the_numbers_of_the_figures():
    texts = {ROOT / path: " ".join(text.split()) for text, path in re.findall(r"!\[([^]]*)\]\(([^)]*)\)", README)}
    described = {FOLDER / f"{name}.svg": re.search("<desc>(.*)</desc>", drawn(name)).group(1) for name in FIGURES}
    assert texts.keys() == described.keys()
    for path, text in texts.items():
        times = re.findall(r"[\d.]+ [µm]s", text)
        assert sorted(times) == sorted(re.findall(r"[\d.]+ [µm]s", described[path]))
        assert times or described[path].startswith(f"{text}. ")


FINDINGS = re.findall(r"^\d\. (.*?)(?=^\d\. |^$)", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.split("**")[1])
def test_findings_quote_the_numbers_of_their_command(finding, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = " ".join(finding.split())
    (command,) = re.findall("`make (tables [^`]*)`", text)
    assert main(command.split()) == 0
    printed = capsys.readouterr().out
    numbers = re.findall(NUMBER, text)
    assert len(numbers) >= 4
    for number in numbers:
        assert re.search(rf"(?<![\d.,]){re.escape(number.removesuffix(' rows').removesuffix(' MB'))}(?![\d.])", printed)


def test_there_are_four_findings_with_caveats():
    assert len(FINDINGS) == README.count("*Caveats:*") == 4


def table_of(command, name):
    """Return the table that a command prints."""
    settings = dict(word.split("=") for word in command.split()[1:])
    records = store.read(ROOT / "results" / settings["MACHINE"]).records
    found = tables(of_queries(records, settings["SF"]), settings["SF"])
    return next(table for table in found if table.name == name)


def test_engines_have_the_rates_of_their_records():
    (command,) = re.findall(r"`make (tables [^`]* TABLE=engines)`", README)
    found = table_of(command, "engines")
    rates = [[entry.text for entry in row[2::2] if entry.text != "-"] for row in found.rows]
    assert [re.findall(r"[\d.]+[KMG]/s", line) for line in README.splitlines() if "/s |" in line] == rates


def test_dataflows_from_sql_have_the_ratios_of_their_records():
    (text,) = re.findall(r"Dataflows from the SQL [^)]*\)", " ".join(README.split()))
    (command,) = re.findall(r"`make (tables [^`]* TABLE=sql)`", text)
    found = table_of(command, "sql")
    ratios = [[float(row[column].text.rstrip("x")) for row in found.rows] for column in range(3, 13, 3)]
    assert len(found.rows) == 22
    means = [statistics.geometric_mean(each) for each in ratios]
    shown = min(means), max(means), max(map(max, ratios))
    assert re.findall(r"[\d.]+x", text) == [f"{each:.2f}x" for each in shown]


def test_engines_have_the_grades_of_their_records(capsys):
    (command,) = re.findall(r"`make (tables [^`]* SUITE=coverage [^`]*)`", " ".join(README.split()))
    assert main([*command.split(), f"RESULTS={ROOT / 'results'}"]) == 0
    printed = capsys.readouterr().out
    rows = re.findall(r"^[|] .*\(`(.*)`\) [|] (.*) [|] (\d+) [|] (\d+) [|] .* [|]$", README, re.MULTILINE)
    assert len(rows) >= 8
    for engine, *shown in rows:
        assert re.search(rf"^{engine} +{' +'.join(shown)} ", printed, re.MULTILINE), engine


def test_the_readme_is_short_and_names_every_page():
    assert len(README.splitlines()) <= 150
    assert [page for page in PAGES if page != "README.md" and f"({page})" not in README] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_pages_and_headings(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in headings(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    named = re.findall(rf"[`>]((?:{FOLDERS})/[\w/.-]*)[`\"]", PAGES[page])
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_glossary_is_sorted():
    terms = re.findall(r"^\| \*\*(.*?)\*\* \|", PAGES["docs/glossary.md"], re.MULTILINE)
    assert len(terms) > 30
    assert terms == sorted(terms, key=str.lower)
