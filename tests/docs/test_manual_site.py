"""The manual as a site: all pages, no broken link, nothing from the network, and a search."""

from __future__ import annotations

import re
import tomllib
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from support.manual import PAGES
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.cli.results.docs import SETTINGS, build, place

PEERS = {str(path.relative_to(ROOT)) for path in ROOT.glob("peers/*/README.md")}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the directory of the manual, in that of a site of records without files."""
    directory = tmp_path_factory.mktemp("site") / "manual"
    assert main(["docs", f"OUTPUT={directory}"]) == 0
    return directory


def pages(entries):
    """Return the pages of a list of navigation, which has lists at several levels."""
    for entry in entries:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages(value)


def test_the_navigation_has_every_page():
    settings = tomllib.loads((ROOT / SETTINGS / "zensical.toml").read_text())
    found = list(pages(settings["project"]["nav"]))
    assert sorted(found) == sorted({*PAGES, *PEERS})


class Addresses(HTMLParser):
    """The addresses of a page: those that it loads, and its links."""

    def __init__(self, html):
        super().__init__()
        self.loads, self.links = [], []
        self.feed(html)

    def handle_starttag(self, name, attributes):
        for key, value in attributes:
            if key == "srcset" or (key == "src" or (name, key) == ("link", "href")):
                self.loads.append(value)
            elif (name, key) == ("a", "href"):
                self.links.append(value)


def test_the_site_loads_nothing_from_the_network(site):
    for file in site.rglob("*.html"):
        assert [address for address in Addresses(file.read_text()).loads if urlsplit(address).netloc] == [], file
    styles = "".join(file.read_text() for file in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*", styles) == []


def test_addresses_lead_to_files_and_headings(site):
    """The page of all engines is outside of the manual."""
    ids = {file: {*re.findall(r'\bid="([^"]+)"', file.read_text())} for file in site.rglob("*.html")}
    for file in ids:
        found = Addresses(file.read_text())
        for address in {*found.loads, *found.links}:
            parts = urlsplit(unescape(address))
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if parts.scheme or parts.netloc or file.name == "404.html" or target == site.parent / "index.html":
                continue
            assert target.exists(), (file, address)
            assert not parts.fragment or parts.fragment in ids[target], (file, address)


def test_every_page_links_to_the_page_of_all_engines(site):
    for name, link in {"index.html": "../index.html", "docs/method.html": "../../index.html"}.items():
        assert link in Addresses((site / name).read_text()).links


def test_the_search_has_the_words_of_all_pages(site):
    (index,) = site.glob("search*.js*")
    text = index.read_text()
    for word in ("worst-case optimal", "PostgreSQL 15", "Add a workload"):
        assert word in text


def test_a_link_to_a_page_that_does_not_exist_is_an_error(tmp_path, capfd):
    place(ROOT, tmp_path)
    with (tmp_path / "pages" / "README.md").open("a") as page:
        page.write("\n[A page](docs/nothing.md)\n")
    with pytest.raises(DeltamarkError, match="the manual was not built"):
        build(tmp_path)
    assert "page does not exist" in "".join(capfd.readouterr())
