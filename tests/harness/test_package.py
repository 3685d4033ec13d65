"""What is installed is whole."""

from __future__ import annotations

import tomllib
from pathlib import Path

from support.paths import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_packages_have_all_their_files():
    installed = {Path(pattern).suffix for pattern in ("x.py", *SETTINGS["package-data"]["*"])}
    included = [ROOT / name.replace(".", "/").removesuffix("*") for name in SETTINGS["packages"]["find"]["include"]]
    files = [path for folder in included for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 100
    assert {path.suffix for path in files if "__pycache__" not in path.parts} <= installed


def test_what_commands_read_lies_in_packages():
    included = SETTINGS["packages"]["find"]["include"]
    for name in ("golden", "published"):
        assert f"deltamark.results.{name}" in included
        assert any((ROOT / "results" / name).iterdir())
