"""Every peer has a complete manifest; a peer is set up in a folder of its own, and again after its files change."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
from support.harness.programs import EXAMPLE_FILE

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.engines import peers as manifest
from deltamark.harness.engines.external import named
from deltamark.harness.engines.peers import PEERS, SHARED, peer, set_up

MANIFEST = """
name = "DuckDB 1"
licence = "MIT"
language = "Python"
source = "PyPI"
tools = [{{ program = "{tool}", hint = "install it" }}]
setup = [["{setup}", "{{installed}}/made"]]
run = ["{python}", "{{source}}/engine.py"]
output = "batches"
maintains = false
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes the folder of a peer."""
    monkeypatch.setattr(manifest, "FOLDER", tmp_path / "peers")
    monkeypatch.setattr(manifest, "INSTALLED", tmp_path / "installed")

    def write(name="other", tool="python3", setup="touch"):
        folder = tmp_path / "peers" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "peer.toml").write_text(MANIFEST.format(tool=tool, setup=setup, python=sys.executable))
        shutil.copy(EXAMPLE_FILE, folder / "engine.py")
        peer.cache_clear()
        return peer(name)

    yield write
    peer.cache_clear()


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_has_a_manifest_a_page_and_the_files_that_it_shares(name):
    each = peer(name)
    assert (each.folder / "README.md").exists()
    assert all((SHARED / file).exists() for file in each.manifest.shared)
    assert not any((each.folder / file).exists() for file in each.manifest.shared)


@pytest.mark.parametrize(("name", "text", "translated"), [
    ("flink", "SELECT (a + b)::INTEGER", "SELECT CAST((a + b) AS INTEGER)"),
    ("flink", "SELECT year(d)::DECIMAL(9, 2)", "SELECT CAST(year(d) AS DECIMAL(9, 2))"),
    ("flink", "SELECT hour, 'an hour', year(d) AS year", "SELECT `hour`, 'an hour', year(d) AS `year`"),
    ("flink", "DATE '1970-01-01' + CAST(t AS INTEGER)", "TIMESTAMPADD(DAY, CAST(t AS INTEGER), DATE '1970-01-01')"),
    ("pglite", "SELECT count(*) FILTER (WHERE a < 1)", "SELECT count(CASE WHEN a < 1 THEN 1 END)"),
])  # fmt: skip
def test_a_text_is_translated(name, text, translated):
    assert peer(name).translated(text) == translated


def test_a_peer_is_set_up_in_a_folder_of_its_own(written, capsys):
    each = written()
    with pytest.raises(DeltamarkError, match="a peer that is not set up: other; run make peer PEER=other"):
        each.ready_command()
    set_up(each)
    assert (each.installed / "made").exists()
    assert (each.source / "engine.py").read_bytes() == EXAMPLE_FILE.read_bytes()
    assert each.ready_command() == [sys.executable, str(each.source / "engine.py")]
    assert "touch" in capsys.readouterr().out


def test_a_peer_whose_files_have_changed_is_set_up_again(written):
    each = written()
    set_up(each)
    (each.folder / "more.txt").write_text("more")
    with pytest.raises(DeltamarkError, match="a peer that was set up from other files"):
        each.ready_command()
    set_up(each)
    assert each.is_current


def test_a_missing_tool_is_named_with_what_installs_it(written):
    with pytest.raises(DeltamarkError, match="other needs a program: no-such-tool; install it"):
        set_up(written(tool="no-such-tool"))


def test_a_set_up_that_fails_leaves_a_peer_that_is_not_ready(written):
    each = written()
    set_up(each)
    with pytest.raises(DeltamarkError, match="the set-up of other stopped: false ended with 1"):
        set_up(written(setup="false"))
    assert not each.is_ready


def test_a_wrong_manifest_names_the_file_and_the_key(written):
    each = written()
    (each.folder / "peer.toml").write_text("name = 3")
    peer.cache_clear()
    with pytest.raises(DeltamarkError, match=r"a wrong manifest: .*peer\.toml: "):
        peer("other")


@pytest.mark.parametrize("key", ["name", "licence", "language", "source", "hint"])
def test_a_manifest_with_escape_codes_is_refused(written, key):
    path = written().folder / "peer.toml"
    path.write_text(re.sub(rf'\b{key} = ".*?"', lambda _: rf'{key} = "\u001b[2J"', path.read_text()))
    peer.cache_clear()
    with pytest.raises(DeltamarkError, match=r"not a short line of printable characters: \\x1b\[2J"):
        peer("other")


def test_a_manifest_that_promises_another_engine_fails(written, monkeypatch):
    each = written()
    set_up(each)
    monkeypatch.setattr(named, "PEERS", ["other"])
    with pytest.raises(DeltamarkError, match="other replies to hello with"):
        named.acquire("other")


def test_peers_are_listed(capsys):
    assert main(["peers"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name} " in out for name in PEERS)
