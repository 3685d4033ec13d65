"""The live dashboard of the shop: its events sum up to the views, and its page shows them in a browser."""

from __future__ import annotations

import http.client
import json
import re
from collections import Counter
from urllib.parse import urlsplit

import pytest
from support.harness import browser
from support.shop_examples import example, shop_files

DAYS, ORDERS = 9, 500


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return the examples that the dashboard is made of, and a folder with the files of a small shop."""
    folder = shop_files(tmp_path_factory.mktemp("shop"), ORDERS)
    follow = example("follow_shop")
    return example("dashboard"), follow, folder


@pytest.fixture
def served(shop):
    dashboard, follow, folder = shop
    with dashboard.opened(folder) as con:
        days = iter(con.execute(follow.DAYS, [str(folder / "orders.parquet")]).fetchall())

        def pass_days(count):
            for _ in range(count):
                follow.arrive(con, folder, *next(days))

        with dashboard.serving(con) as address:
            yield dashboard, con, address, pass_days


class Reader:
    """A browser that sums up the events of the views."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc)
        self.connection.request("GET", "/events")
        self.reply = self.connection.getresponse()
        self.sums: dict[str, Counter] = {}
        self.commit = 0

    def read_until(self, done):
        while not done(self):
            line = self.reply.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("event: "):
                self.take(line[7:-1], json.loads(self.reply.readline().decode()[6:]))

    def take(self, view, content):
        total = self.sums.setdefault(view, Counter())
        for diff, row in content["changes"]:
            total[json.dumps(row)] += diff
        self.commit = max(self.commit, content["commit"])

    def answers(self):
        return {view: +total for view, total in self.sums.items()}


def present(dashboard, con):
    return {
        view: Counter(json.dumps(row, default=dashboard.plain) for row in con.execute(f"FROM {view}").fetchall())
        for view in dashboard.VIEWS
    }


def test_events_sum_up_to_the_views_for_browsers_that_come_at_any_time(served):
    dashboard, con, address, pass_days = served
    readers = [Reader(address)]
    for days in (1, DAYS - 3, 2):
        pass_days(days)
        readers.append(Reader(address))
        expected = present(dashboard, con)
        for each in readers:
            each.read_until(lambda reader, expected=expected: reader.answers() == expected)
    assert {reader.commit for reader in readers} == {DAYS}
    for each in readers:
        assert each.reply.headers["Content-Type"] == "text/event-stream"
        each.connection.close()


def test_the_server_ends_while_a_browser_reads_and_knows_two_pages(shop):
    dashboard, _, folder = shop
    with dashboard.opened(folder) as con:
        with dashboard.serving(con) as address:
            reader = Reader(address)
            connection = http.client.HTTPConnection(urlsplit(address).netloc)
            connection.request("GET", "/others")
            assert connection.getresponse().status == 404
            connection.close()
        while reader.reply.readline():
            pass
        reader.connection.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    with browser.opened(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


UNTIL = """new Promise((done) => {{
  const look = () => ({}) ? done(true) : setTimeout(look, 20);
  look();
}})"""
TILES = "[...document.querySelectorAll('.tile strong')].map((each) => Number(each.textContent))"
CUSTOMERS = "[...document.querySelectorAll('#best_customers tr')].map((row) => Number(row.cells[0].textContent))"


def test_the_page_shows_the_views_as_they_change(served, shown):
    _, con, address, pass_days = served
    shown.screen(1200, 900)
    shown.open(address)
    for days in (3, 4):
        pass_days(days)
        best = con.execute("SELECT customer_id FROM best_customers ORDER BY spent DESC, customer_id").fetchall()
        expected = json.dumps([number for (number,) in best])
        assert shown.run(UNTIL.format(f"JSON.stringify({CUSTOMERS}) === '{expected}'.replaceAll(' ', '')"))
    orders = con.execute("SELECT orders FROM orders_by_status ORDER BY status").fetchall()
    expected = json.dumps([number for (number,) in orders])
    assert shown.run(UNTIL.format(f"JSON.stringify({TILES}) === '{expected}'.replaceAll(' ', '')"))
    assert shown.run("document.querySelectorAll('#revenue_by_category .bar').length") == 5
    for width in (400, 800, 1600):
        shown.screen(width, 900)
        assert shown.run("document.documentElement.scrollWidth") == width
    colors = [
        shown.screen(1200, 900, scheme) or shown.run("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert [sum(map(int, re.findall(r"\d+", color))) > 384 for color in colors] == [True, False]
    assert shown.complaints == []
    shown.open("about:blank")
