"""The page of the field in a browser: choices by keyboard, the same cells as without scripts, no wide screen."""

from __future__ import annotations

import json

import pytest
from support.harness import browser
from support.harness.site_records import field

from deltamark.harness.report.site import Site, first_page


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "index.html"
    path.write_text(first_page(Site(field(), "../..", "history.html")))
    with browser.opened(tmp_path_factory.mktemp("profile")) as opened:
        yield opened, path


@pytest.fixture
def fresh(shown):
    opened, path = shown
    opened.events.clear()
    opened.screen(1200, 900)
    opened.open("about:blank")
    opened.open(path.as_uri())
    yield opened
    assert opened.complaints == []
    assert {url.partition("#")[0] for url in opened.loaded if not url.startswith("about:")} == {path.as_uri()}


def test_the_script_draws_the_first_choice_as_it_is_without_scripts(fresh, shown):
    without = json.dumps(shown[1].read_text())
    cells = "(of) => [...of.querySelectorAll('#field tr > *, #heat tr > *')].map((each) => each.outerHTML)"
    before, after = fresh.run(f"[new DOMParser().parseFromString({without}, 'text/html'), document].map({cells})")
    assert len(before) > 50
    assert after == before


FOCUSED = "document.activeElement.name || document.activeElement.textContent"
RATES = (
    "[...document.querySelectorAll('#field tr[data-engine=embedded] td')].map((each) => each.firstChild.textContent)"
)
ADDRESSES = "[...document.querySelectorAll('#field td > a')].map((each) => each.hash)"


def walk(page, until):
    """Press Tab until an element has the focus; return the focused elements."""
    seen = []
    while not seen or seen[-1] != until:
        page.press("Tab")
        seen.append(page.run(FOCUSED))
        assert len(seen) < 100, seen
    return seen


def test_a_walk_by_keyboard(fresh):
    seen = walk(fresh, "query")
    assert seen[:4] == ["The manual", "the rules of measurement", "Engines", "Queries"]
    assert {"machine", "workload", "batch"} <= {*seen}
    assert fresh.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    before = fresh.run(ADDRESSES)
    fresh.press("ArrowDown")
    assert fresh.run("document.activeElement.value") == "q01"
    assert "; q01" in fresh.run("document.getElementById('scope').textContent")
    assert "query=q01" in fresh.run("location.hash")
    assert fresh.run(ADDRESSES) != before
    walk(fresh, "Latency")
    fresh.press("Enter")
    assert fresh.run("document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    walk(fresh, "embedded")
    assert fresh.run("document.activeElement.getAttribute('href')") == "../../dataflow"
    walk(fresh, fresh.run(RATES)[2])
    assert fresh.run("document.activeElement.getAttribute('href')").startswith("one-sf1.html#r-")


def test_an_address_has_its_choice(fresh):
    fresh.run("document.querySelector('[name=workload]').focus()")
    fresh.press("ArrowDown")
    chosen, address = fresh.run("[document.querySelector('[name=workload]').value, location.href]")
    fresh.open("about:blank")
    fresh.open(address)
    assert fresh.run("document.querySelector('[name=workload]').value") == chosen


@pytest.mark.parametrize("width", [1600, 1000, 400])
def test_nothing_is_wider_than_the_screen(fresh, width):
    fresh.screen(width, 800)
    assert fresh.run("document.documentElement.scrollWidth") == width
