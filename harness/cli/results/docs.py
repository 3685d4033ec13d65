"""The command that writes the manual as a site."""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.results.site import FOLDER, MANUAL
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.console.console import say
from deltamark.harness.system.machine import ROOT

SETTINGS = "docs/site"
"""The folder with the settings, the style and the template of the site."""

PAGES = ("*.md", "docs/*.md", "docs/figures/*", "peers/*/README.md")
"""The files of the manual, which have the same places in the site, so that all links between them stay as they are."""


def options(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    text = f"directory of the manual (default: {FOLDER}/{MANUAL} in RESULTS, where the site of make site links to it)"
    parser.add_argument("--output", type=Path, metavar="DIR", help=text)


@command("docs", options)
def run(args: argparse.Namespace) -> int:
    """Write the manual as a site with search: README, docs/, the pages of the peers, CONTRIBUTING and CHANGELOG.

    A link to a page or a heading that does not exist is an error. The files load nothing from the network. The search
    needs a server, such as `python3 -m http.server`.
    """
    output: Path = args.output or args.results / FOLDER / MANUAL
    with tempfile.TemporaryDirectory() as directory:
        place(ROOT, Path(directory))
        build(Path(directory))
        with naming(output):
            shutil.copytree(Path(directory, "site"), output, dirs_exist_ok=True)
    say(output / "index.html")
    return 0


def place(root: Path, directory: Path) -> None:
    """Copy the manual and the settings of its site to a directory: the tool does not read files elsewhere."""
    shutil.copytree(root / SETTINGS, directory, dirs_exist_ok=True)
    for path in (path for pattern in PAGES for path in root.glob(pattern)):
        copy = directory / "pages" / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def build(directory: Path) -> None:
    """Make the site of the pages in a directory."""
    tool = importlib.import_module("zensical").__name__  # a missing package is an error that names it
    words = [sys.executable, "-m", tool, "build", "--clean", "--strict"]
    done = subprocess.run(words, cwd=directory, check=False)
    if done.returncode:
        raise DeltamarkError("the manual was not built", f"exit code {done.returncode}", "mend the faults above")
