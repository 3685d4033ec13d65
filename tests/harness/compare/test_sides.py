"""The sides of a comparison: each measures by its own server, over its own data."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell, MotifCell
from deltamark.harness.cli.main import main
from deltamark.harness.compare.cells import SideData
from deltamark.harness.compare.rule import QUANTITIES
from deltamark.harness.compare.sides import SERVERS, ServedSide, SideError, SideRequest, SideSpec, opener, sides
from deltamark.harness.measure.client import WarmReply
from deltamark.harness.results.record import MEASURING

SERVER_MODULE = SERVERS["tpch"]
DATA_MAKERS = {"tpch": "deltamark.datagen.make", "graph": "deltamark.datagen.graphs.make"}


def test_a_side_checks_and_samples(chunked):
    both = [SideSpec(name, name, ROOT, SERVER_MODULE) for name in ("base", "head")]
    cell = Cell("q04", "0.001", physical=500)
    rounds = chunked.rows("lineitem")
    with opener(dict.fromkeys(both, chunked.directory), 60.0)() as opened:
        digests = {side.check(cell, [rounds]) for side in opened.values()}
        samples = [side.sample(cell) for side in opened.values()]
        with pytest.raises(SideError, match=r"failed: .*none"):
            opened["head"].sample(cell.but(variant="none"))
    assert len(digests) == 1
    assert all(sample[quantity.name] > 0 for sample in samples for quantity in QUANTITIES)


def test_a_side_that_measures_differently_is_refused():
    class OldServer:
        def warm(self, _="tpch"):
            return WarmReply()

    side = ServedSide(SideSpec("base", "base (old)", ROOT, SERVER_MODULE), OldServer(), 1.0)
    with pytest.raises(DeltamarkError, match=r"base \(old\) does not compare: .*number 0"):
        side.open()


SERVER = f"""
import json, pathlib, sys
REPLIES = {{
    "warm": {{"measuring": {MEASURING}}}, "ask": {{}}, "cell": {{"digest": pathlib.Path(sys.argv[1]).name}},
    "sample": {{"time": 1.0, "state": 2, "peak": 3}},
}}
for line in sys.stdin:
    print(json.dumps({{"status": "ok", **REPLIES[json.loads(line)["do"]]}}), flush=True)
"""
DATA_MAKER = """
class Wanted:
    def __init__(self, data, sf, master):
        self.directory = data / f"tpch-{sf}-vVERSION"

class Dataset:
    def __init__(self, directory):
        self.directory = directory

class Graph:
    def __init__(self, kind, size):
        self.name = f"graph-{kind}-{size}-vVERSION"

def make_data(wanted, report):
    report("generating", 0, 1)
    wanted.directory.mkdir(parents=True)
    return Dataset(wanted.directory), True

def make_graph(data, graph, master, report):
    report("drawing", 0, 1)
    (data / graph.name).mkdir(parents=True)
    return data / graph.name
"""


def write_module(root: Path, name: str, text: str) -> None:
    file = root.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in file.relative_to(root).parents[:-1]:
        (root / folder / "__init__.py").touch()
    file.write_text(text)


def fake_repository(root: Path, suite: str) -> Path:
    """Make a repository whose two commits have data of other versions."""
    git = ["git", "-c", "user.name=test", "-c", "user.email=test"]
    root.mkdir()
    (root / ".gitignore").write_text(".compare/\n")
    subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], cwd=root, check=True)
    for version in (1, 2):
        subprocess.run([*git, "rm", "-r", "--quiet", "--ignore-unmatch", "."], cwd=root, check=True)
        write_module(root, SERVERS[suite], SERVER)
        write_module(root, DATA_MAKERS[suite], DATA_MAKER.replace("VERSION", str(version)))
        subprocess.run([*git, "add", "--all"], cwd=root, check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", f"version {version}"], cwd=root, check=True)
    return root


@pytest.mark.parametrize(
    ("suite", "size", "cell", "directories"),
    [
        ("tpch", "0.01", Cell("q01", "0.01"), ("tpch-0.01-v1", "tpch-0.01-v2")),
        ("graph", "10", MotifCell("triangle", "rmat:10"), ("graph-rmat-10-v1", "graph-rmat-10-v2")),
    ],
)
def test_a_commit_with_data_of_another_version_is_measured_over_its_own(tmp_path, suite, size, cell, directories):
    repository = fake_repository(tmp_path / "repository", suite)
    data = SideData(suite, tmp_path / "data", size, "local[1]")
    with sides(repository, SideRequest("main~1"), SideRequest("main"), suite) as both:
        made = data.make(both, lambda *_: None)
        assert [directory.name for directory in made.values()] == [*directories]
        with opener(made, 10.0)() as opened:
            assert [side.check(cell, [1]) for side in opened.values()] == [*directories]
            assert all(side.sample(cell)["time"] == 1.0 for side in opened.values())


def test_a_commit_that_cannot_make_its_data_is_named(tmp_path):
    write_module(tmp_path, DATA_MAKERS["tpch"], "raise SystemExit('no room')")
    data = SideData("tpch", tmp_path / "data", "0.01", "local[1]")
    side = SideSpec("base", "base (old)", tmp_path, SERVER_MODULE)
    with pytest.raises(DeltamarkError, match=r"base \(old\) cannot make its data: no room; name another commit"):
        data.make([side], lambda *_: None)


@pytest.mark.parametrize("words", [["SUITE=graph", "SF=1"], ["SUITE=graph", "QUERIES=q01"], ["SCALE=12"]])
def test_settings_of_another_suite_are_refused(words, capsys):
    assert main(["compare", *words]) == 2
    suite = "graph" if "SUITE=graph" in words else "tpch"
    assert f"no setting of the suite {suite}: {words[-1].partition('=')[0]}" in capsys.readouterr().err
