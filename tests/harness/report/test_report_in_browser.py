"""The report in a browser renders without errors, filters, sorts, and shows tooltips."""

from __future__ import annotations

import re

import pytest
from support.harness import browser
from support.harness.report_records import REPORT

from deltamark.harness.report.page import page


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(REPORT))
    with browser.opened(tmp_path_factory.mktemp("profile")) as opened:
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
    assert {url for url in opened.loaded if not url.startswith("about:")} == {url}


COUNT = "[...document.querySelectorAll('{}')].filter((each) => each.getClientRects().length).length"


def count(shown, selector):
    return shown.run(COUNT.format(selector))


def test_the_page_renders(fresh):
    assert fresh.run("document.querySelector('h1').textContent") == "deltamark"
    assert count(fresh, "#throughput .panel") == 3
    assert count(fresh, "#throughput .look1 .point") == 4
    assert count(fresh, "#latency .strip:not(.axis)") == 3 + 3 + 3
    assert count(fresh, "section > .empty") == 0


OUTSIDE = """[...document.querySelectorAll('.panel text')].filter((text) => {
  const [label, panel] = [text, text.closest('.panel')].map((each) => each.getBoundingClientRect());
  return label.left < panel.left || label.right > panel.right;
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("width", [1600, 1000, 390])
def test_labels_lie_in_their_panels_and_links_in_the_bar(fresh, width):
    fresh.screen(width, 800)
    assert fresh.run(OUTSIDE) == []
    edges = "['nav .links', 'main h2'].map((name) => document.querySelector(name).getBoundingClientRect().left)"
    links, headings = fresh.run(edges)
    assert links == headings
    bar = "(() => { const bar = document.querySelector('nav .links'); return bar.scrollWidth - bar.clientWidth; })()"
    assert width < 600 or fresh.run(bar) == 0


@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_wider_than_the_screen(fresh, width):
    fresh.screen(width, 800)
    assert fresh.run("document.documentElement.scrollWidth") == width


def test_the_dark_scheme_is_dark(fresh):
    light, dark = (
        fresh.screen(1200, 900, scheme) or fresh.run("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    )
    assert [sum(map(int, re.findall(r"\d+", color))) > 384 for color in (light, dark)] == [True, False]


CHOOSE = "document.querySelector('#filters [value=\"{}\"]').click()"


def test_filters_leave_the_selected_rows(fresh):
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
