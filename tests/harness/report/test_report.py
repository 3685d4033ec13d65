"""The page of the report: complete, self-contained, and without numbers of wrong answers."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from support.harness.report_records import RECORDS, REPORT, session

from deltamark.harness.cli.main import main
from deltamark.harness.report.page import page
from deltamark.harness.results.store import writing


class Balanced(HTMLParser):
    """A parser that lists elements, and checks that each is closed."""

    def __init__(self):
        super().__init__()
        self.stack, self.elements = [], []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in ("meta", "input"):
            self.stack.append(name)

    def handle_endtag(self, name):
        assert self.stack.pop() == name


def parsed(report=REPORT):
    parser = Balanced()
    parser.feed(page(report))
    assert parser.stack == []
    return parser


def test_the_page_is_complete_and_refers_to_no_other_file():
    elements = parsed().elements
    assert [name for name, _ in elements].count("script") == 1
    assert not {"link", "img", "iframe"} & {name for name, _ in elements}
    assert not [keys for _, keys in elements if any(key.startswith("on") or key == "src" for key in keys)]
    assert all(keys.get("href", "#").startswith("#") for _, keys in elements)
    assert not re.search(r"https?:|url\(|@import", page(REPORT))


def test_every_section_has_a_link():
    elements = parsed().elements
    sections = [keys["id"] for name, keys in elements if name == "section"]
    assert sections == [
        "engines", "throughput", "break-even", "latency", "workers", "state", "batching", "coverage", "consistency",
        "findings", "problems", "tables", "sharing", "graphs", "history", "points", "machine",
    ]  # fmt: skip
    assert [keys["href"] for name, keys in elements if name == "a"] == [f"#{name}" for name in sections]


def test_shared_dataflows_are_compared_with_separate_ones():
    points = [(keys["data-title"], keys["data-command"]) for _, keys in parsed().elements if "data-title" in keys]
    repeats = "make bench SUITE=shared SF=1 LOGICAL=1 PHYSICAL=1000 RESULTS=again"
    assert [point for point in points if point[0].startswith("SF 1")] == [
        ("SF 1, 1 x 1000, together", repeats), ("SF 1, 1 x 1000, alone", repeats),
    ] * 2  # fmt: skip


def test_a_page_of_one_record_has_the_sections_of_one_record():
    one = replace(REPORT, records=RECORDS[:1], table_records=())
    sections = [keys["id"] for name, keys in parsed(one).elements if name == "section"]
    assert sections == ["throughput", "latency", "state", "coverage", "consistency", "tables", "points", "machine"]


def test_numbers_of_wrong_answers_are_not_points():
    titles = [keys["data-title"] for _, keys in parsed().elements if "data-title" in keys]
    assert titles
    assert not [title for title in titles if "q22" in title or "q21" in title]


def test_the_command_writes_one_file(tmp_path, capsys):
    with writing(tmp_path / "machine") as writer:
        writer.add([RECORDS[0]])
        writer.add_session(session("2026-01-01"))
    words = ["report", "SF=1", "--results", str(tmp_path), "--machine", "machine"]
    assert main(words) == 0
    assert (tmp_path / "machine" / "report.html").read_text().startswith("<!doctype html>")
    assert main([*words, "--output", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").exists()
    assert main(["report", "SF=2", "--results", str(tmp_path), "--machine", "machine"]) == 2
    assert "nothing is measured" in capsys.readouterr().err
