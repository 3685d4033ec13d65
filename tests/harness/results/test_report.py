"""The report: what it says, that it says nothing else, and that a browser shows it without complaint."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support import browser

from deltamark.harness.cli.main import main
from deltamark.harness.measure.cell import Cell
from deltamark.harness.report.about import about, command
from deltamark.harness.report.charts.markup import Markup, joined, tag
from deltamark.harness.report.charts.scale import Linear, Log, short, tick
from deltamark.harness.report.page import Given, page
from deltamark.harness.results.record import Origin, blank_query_record
from deltamark.harness.results.store import writing
from deltamark.harness.results.table_record import TableRecord, TableRow

HOSTILE = "<script>fetch('//x')</script> \" ' & </style> -->"
FACTS = {
    "cpu": f"CPU {HOSTILE}", "cores": 2, "usable": 2, "memory_gb": 8, "caches": "", "system": "x", "limits": "none",
    "governor": "powersave", "load": 0.0,
}  # fmt: skip


def session(name):
    return {
        "session": name, "started": name, "machine": FACTS, "versions": "v", "java": "j", "commit": "c0ffee",
        "argv": HOSTILE,
    }  # fmt: skip


def record(query="q01", logical=1, physical=1000, took=0.5, **changes):
    cell = {name: changes.pop(name) for name in ("engine", "workload", "workers", "variant") if name in changes}
    origin = Origin("code", "versions", "c0ffee", changes.pop("session", "2026-01-01"))
    of = Cell(query, "1", logical=logical, physical=physical, **cell)
    made = blank_query_record(of, changes.pop("sample", 20_000), data="data", origin=origin)
    said = {
        "seconds": [took], "tuples": 6_000_000, "batches": 60, "state_rows": 9, "state_bytes": 2_000_000,
        "latency": {"p50": took / 90, "p95": took / 80, "p99": took / 70, "max": took / 60}, "verified": "oracle",
    }  # fmt: skip
    return replace(made, **(said | changes))


RECORDS = [
    *(record(query, 1, size, 2 / size**0.5) for query in ("q01", "q04", "q15") for size in (1, 1000, 100_000)),
    *(record(query, size, 1, 1.0) for query in ("q01", "q04") for size in (1000, 100_000)),
    *(record(query, size, 1, 9.0, engine="duckdb", sample=15) for query in ("q01", "q04") for size in (1000, 100_000)),
    record("q01", 100_000, 1, 0.6, workers=2),
    record("q04", 1, 100_000, workload="window:100"),
    record("q15", 1, 100_000, variant="flat"),
    record("q04", 1, 1000, 0.4, session="2026-01-02"),
    record("q22", 1, 1000, status="wrong", problem=HOSTILE),
    record("q21", 1, 1000, status="timeout", limit=600.0),
]
LOADED = {
    f"{side}_{what}": [2e6] for side in ("together", "alone") for what in ("seconds", "rows", "bytes", "peak")
} | {"tuples": [9]}  # fmt: skip
FINDINGS = (
    TableRecord(suite="shared", dataset="SF 1", table="loads", cell="x", rows=(TableRow("1 x 1000", LOADED),)),
    TableRecord(
        suite="shared", dataset="SF 1", table="loads", cell="y", rows=(TableRow("1 x 10000"),), status="wrong",
        problem=HOSTILE,
    ),
    TableRecord(
        suite="shared", dataset="SF 1", table="arrangements", cell="z",
        rows=(TableRow("lineitem", {"rows": [2], "bytes": [9]}, HOSTILE),),
    ),
    TableRecord(
        suite="graph", dataset="hub:9", table="hub",
        rows=(TableRow("least", {"seconds": [1], "proposals": [2], "changes": [3]}),),
    ),
)  # fmt: skip
GIVEN = Given(RECORDS, {name: session(name) for name in ("2026-01-01", "2026-01-02")}, HOSTILE, "1", FINDINGS)


# what it is made of


def test_markup_escapes_all_but_markup():
    made = tag("p", HOSTILE, tag("b", "<"), data_said=HOSTILE, hidden=True, title=None)
    assert "<script" not in made
    assert made.startswith('<p data-said="&lt;script&gt;')
    assert made.endswith("<b>&lt;</b></p>")
    assert " hidden>" in made
    assert "title" not in made
    assert joined([Markup("<br>"), ["<"]]) == "<br>&lt;"


def test_scales_hold_what_they_are_made_of():
    scale = Log.over([0.2, 30, 0])
    assert scale.ticks == pytest.approx([0.1, 1, 10, 100])
    assert [scale.share(value) for value in (0.1, 1, 100, 0)] == pytest.approx([0, 1 / 3, 1, 0])
    assert Log.over([1000.0]).ticks == [1000, 10_000]
    assert Linear(0, 0.5, 4).ticks == [0, 0.5, 1, 1.5, 2]
    assert Linear(0, 0.5, 4).share(0.5) == 0.25


def test_ticks_are_short():
    assert [short(10.0**power) for power in (0, 3, 5, 9)] == ["1", "1K", "100K", "1G"]
    assert [tick(10.0**power) for power in range(-6, 1)] == ["1 us", "10", "100", "1 ms", "10", "100", "1 s"]


def test_a_point_says_how_to_repeat_it():
    said = "make bench SF=1 QUERIES=q01 LOGICAL=1 PHYSICAL=1000 ENGINES=embedded SAMPLE=20000 RESULTS=again"
    assert command(record()) == said
    other = record("q15", variant="flat", workload="window:5", workers=2, engine="exec:a b", sample=7)
    assert command(other).endswith(
        "VARIANTS=flat WORKLOAD=window:5 LOGICAL=1 PHYSICAL=1000 WORKERS=2 ENGINES='exec:a b' SAMPLE=7 RESULTS=again"
    )
    assert about(record()).lines[0] == "12.00M/s: 6,000,000 tuples in 500 ms"


# the page


class Balanced(HTMLParser):
    """Counts elements, and insists that each is closed."""

    def __init__(self):
        super().__init__()
        self.stack, self.seen = [], []

    def handle_starttag(self, name, attributes):
        self.seen.append((name, dict(attributes)))
        if name not in ("meta", "input"):
            self.stack.append(name)

    def handle_endtag(self, name):
        assert self.stack.pop() == name


def parsed(given=GIVEN):
    parser = Balanced()
    parser.feed(page(given))
    assert parser.stack == []
    return parser


def test_the_page_is_whole_and_names_nothing_outside_of_it():
    seen = parsed().seen
    assert [name for name, _ in seen].count("script") == 1
    assert not {"link", "img", "iframe"} & {name for name, _ in seen}
    assert not [each for _, each in seen if any(name.startswith("on") or name == "src" for name in each)]
    assert all(each.get("href", "#").startswith("#") for _, each in seen)
    assert not re.search(r"https?:|url\(|@import", page(GIVEN))


def test_every_section_and_link_is_there():
    seen = parsed().seen
    sections = [each["id"] for name, each in seen if name == "section"]
    assert sections == [
        "problems", "throughput", "latency", "workers", "state", "tables", "sharing", "graphs", "history", "points",
        "machine",
    ]  # fmt: skip
    assert [each["href"] for name, each in seen if name == "a"] == [f"#{name}" for name in sections]


def test_shared_stands_against_unshared():
    told = [(each["data-title"], each["data-command"]) for _, each in parsed().seen if "data-title" in each]
    repeats = "make bench SUITE=shared SF=1 LOGICAL=1 PHYSICAL=1000 RESULTS=again"
    assert [each for each in told if each[0].startswith("SF 1")] == [
        ("SF 1, 1 x 1000, together", repeats), ("SF 1, 1 x 1000, alone", repeats),
    ] * 2  # fmt: skip


def test_a_page_of_one_record_has_what_it_can():
    one = replace(GIVEN, records=RECORDS[:1], findings=())
    sections = [each["id"] for name, each in parsed(one).seen if name == "section"]
    assert sections == ["throughput", "latency", "state", "tables", "points", "machine"]


def test_numbers_of_wrong_answers_are_not_points():
    told = [each["data-title"] for _, each in parsed().seen if "data-title" in each]
    assert told
    assert not [title for title in told if "q22" in title or "q21" in title]


ON_SPARK = [
    *(record("q04", size, 1, 5.0, engine="spark", workers=2) for size in (100_000, 1_000_000)),
    record("q04", 100_000, 1, 4.0, engine="spark", workers=3),
    record("q04", 100_000, 1, 8.0, engine="spark-sql", workers=2, state_bytes=0),
]
CHARTS = ("throughput", "latency", "state")


def section(given, name):
    """Return the legend of a section as text, its series in the legend, and its series and points beside it."""
    whole = re.search(rf'<section[^>]* id="{name}".*?</section>', page(given), re.DOTALL)[0]
    legend = re.search(r'<ul class="legend">.*?</ul>', whole, re.DOTALL)[0]
    words = [re.sub("<[^>]+>", "", each) for each in re.findall("<li>.*?</li>", legend, re.DOTALL)]
    inside, beside = ({*re.findall(r"series (look\d \w+)", text)} for text in (legend, whole.replace(legend, "")))
    return words, inside, beside, re.findall('data-title="([^"]*)"', whole)


@pytest.mark.parametrize("chart", CHARTS)
def test_records_of_spark_are_drawn_with_each_number_of_shards(chart):
    words, _, _, points = section(replace(GIVEN, records=[*RECORDS, *ON_SPARK]), chart)
    wanted = {about(each).title for each in ON_SPARK if chart != "state" or each.state_bytes}
    if chart == "state":  # of several batchings one is drawn
        wanted -= {about(ON_SPARK[1]).title}
    assert wanted <= {*points}
    shown = {each.partition(":")[0] for each in words}
    assert {"spark, 2 shards", "spark, 3 shards"} <= shown
    assert ("spark-sql, recomputing, 2 shards" in shown) == (chart != "state")


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], ON_SPARK, [*RECORDS, *ON_SPARK]])
def test_legends_list_what_is_drawn_and_nothing_else(chart, records):
    words, inside, beside, _ = section(replace(GIVEN, records=records, findings=()), chart)
    assert inside == beside
    assert len({*words}) == len(words)


def test_an_engine_that_was_measured_with_several_workers_alone_is_drawn():
    several = [record("q04", 1, 1000, workers=2), record("q04", 1, 1000, 9.0, engine="duckdb")]
    assert "embedded, 2 workers" in section(replace(GIVEN, records=several), "latency")[0]


def test_the_command_writes_one_file(tmp_path, capsys):
    with writing(tmp_path / "machine") as writer:
        writer.add(RECORDS[0])
        writer.add_session(session("2026-01-01"))
    words = ["report", "SF=1", "--results", str(tmp_path), "--machine", "machine"]
    assert main(words) == 0
    assert (tmp_path / "machine" / "report.html").read_text().startswith("<!doctype html>")
    assert main([*words, "--output", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").exists()
    assert main(["report", "SF=2", "--results", str(tmp_path), "--machine", "machine"]) == 2
    assert "nothing is measured" in capsys.readouterr().err


# in a browser


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    program = browser.find()
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(browser.NAMES)}")
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(GIVEN))
    with browser.opened(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened, path.as_uri()


@pytest.fixture
def fresh(shown):
    opened, url = shown
    opened.events.clear()
    opened.screen(1200, 900)
    opened.open("about:blank")
    opened.open(url)
    yield opened
    assert opened.complaints == []
    assert {each for each in opened.loaded if not each.startswith("about:")} == {url}


COUNT = "[...document.querySelectorAll('{}')].filter((each) => each.getClientRects().length).length"


def count(shown, selector):
    return shown.run(COUNT.format(selector))


def test_it_renders(fresh):
    assert fresh.run("document.querySelector('h1').textContent") == "deltamark"
    assert count(fresh, "#throughput .panel") == 3
    assert count(fresh, "#throughput .look1 .point") == 4
    assert count(fresh, "#latency .strip:not(.axis)") == 3 + 3 + 3
    assert count(fresh, "section > .empty") == 0


@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_wider_than_the_screen(fresh, width):
    fresh.screen(width, 800)
    assert fresh.run("document.documentElement.scrollWidth") == width


def test_dark_is_dark(fresh):
    light, dark = (
        fresh.screen(1200, 900, scheme) or fresh.run("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    )
    assert [sum(map(int, re.findall(r"\d+", color))) > 384 for color in (light, dark)] == [True, False]


CHOOSE = "document.querySelector('#filters [value=\"{}\"]').click()"


def test_filters_leave_what_was_chosen(fresh):
    fresh.run(CHOOSE.format("q04"))
    assert count(fresh, "#throughput .panel") == 1
    assert count(fresh, "#table-physical tbody tr") == 1
    assert fresh.run("document.getElementById('filtered').textContent") == "q04"
    fresh.run(CHOOSE.format("duckdb"))
    assert count(fresh, "#throughput .look0 .point") == 0
    assert count(fresh, "#throughput .look1 .point") == 2
    fresh.run(CHOOSE.format("window:100"))
    assert count(fresh, "#throughput > .empty") == 1
    fresh.run("document.querySelector('#filters [type=reset]').click()")
    fresh.run("new Promise((done) => setTimeout(done, 50))")
    assert count(fresh, "#throughput .panel") == 3


def test_an_address_has_its_filters(fresh):
    fresh.run(CHOOSE.format("q04"))
    address = fresh.run("location.href")
    assert address.endswith("#query=q04")
    fresh.open("about:blank")
    fresh.open(address)
    assert count(fresh, "#throughput .panel") == 1


def test_headings_sort(fresh):
    column = "[...document.querySelectorAll('#table-physical tbody tr')].map((row) => row.cells[{}].textContent)"
    sort = "document.querySelectorAll('#table-physical thead button')[{}].click()"
    seen = []
    for _ in range(2):
        fresh.run(sort.format(1))
        seen.append(fresh.run(column.format(1)))
    numbers = [text for text in seen[0] if text.endswith("s") and text[0] != ">"]
    assert len(numbers) == 3
    assert seen[1] == [*reversed(numbers), *seen[0][3:]]
    fresh.run(sort.format(0))
    names = fresh.run(column.format(0))
    assert names == sorted(names)


def test_keys_walk_from_point_to_point(fresh):
    title = "document.querySelector('#tip strong').textContent"
    fresh.run("document.querySelector('#throughput [data-chart]').focus()")
    fresh.press("ArrowRight")
    assert fresh.run(title) == "q01, 1 x 1, embedded"
    fresh.run("new Promise((done) => { scrollBy(0, 40); setTimeout(done, 100); })")
    fresh.press("ArrowRight")
    assert fresh.run(title) == "q01, 1 x 1000, embedded"
    fresh.press("Enter")
    assert fresh.run("document.activeElement.textContent") == "Copy command"
    assert fresh.run("document.querySelector('#tip code').textContent").startswith("make bench SF=1 QUERIES=q01")
    fresh.press("Escape")
    assert fresh.run("document.getElementById('tip').hidden")


def test_a_click_keeps_a_point_open(fresh):
    fresh.run("document.querySelector('#latency').scrollIntoView()")
    place = "const box = document.querySelector('#latency .point circle').getBoundingClientRect();"
    x, y = fresh.run(f"(() => {{ {place} return [box.x + 5, box.y + 5]; }})()")
    fresh.click(x, y)
    assert fresh.run("document.querySelector('#tip.pinned strong').textContent") == "q01, 1 x 1, embedded"
    fresh.click(2, 300)
    assert fresh.run("document.getElementById('tip').hidden")
