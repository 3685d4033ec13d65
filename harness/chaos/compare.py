"""The trial of `make compare`: a commit is compared with itself in a clone, and the next run has a verdict."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from deltamark.harness.chaos.running import CommandRun, Invocation
from deltamark.harness.compare.gate import Verdict
from deltamark.harness.compare.trees import DIRECTORY, git, snapshot
from deltamark.harness.system.machine import ROOT

CELLS = ("BASE=HEAD", "HEAD=HEAD", "PHYSICAL=1000")
ALLOWED: tuple[Verdict, ...] = ("undecided", "improvement", "unchanged")
FILES = {"base", "head", "lock", "summary-tpch.md", "verdict-tpch.json", "verdict-tpch.txt"}


class CompareTrial:
    """settings: those that name the data and the compared cells."""

    def __init__(self, settings: Sequence[str], data: Path, scratch: Path) -> None:
        self._settings = (*settings, f"DATA={data.resolve()}")
        self._clone, self._temporary = scratch / "clone", scratch / "temporary"
        self._runs = 0
        git(ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(self._clone))
        git(self._clone, "checkout", "--quiet", "--detach", snapshot(ROOT))

    @property
    def command(self) -> Invocation:
        words = [sys.executable, "-m", "harness", "compare", *self._settings, *CELLS]
        return Invocation(words, self._clone, self._temporary)

    def prepare(self) -> None:
        """Remove the work trees of the run before, every other time."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        self._runs += 1
        if self._runs % 2:
            shutil.rmtree(self._clone / DIRECTORY, ignore_errors=True)
            git(self._clone, "worktree", "prune")

    def keep_result(self) -> None:
        """Keep nothing: two comparisons may have different verdicts."""

    def violations(self, _struck: CommandRun) -> Iterator[str]:
        directory = self._clone / DIRECTORY
        verdict = directory / "verdict-tpch.txt"
        word = verdict.read_text(encoding="utf-8").strip() if verdict.exists() else "none"
        if word not in ALLOWED:
            yield f"the verdict of a commit and itself is {word}"
        yield from (f"{path.name} was left" for path in directory.iterdir() if path.name not in FILES)
        listed = git(self._clone, "worktree", "list", "--porcelain")
        if listed.count("worktree ") != 3 or "locked" in listed or "prunable" in listed:
            yield f"work trees were left: {listed}"
        for side in ("base", "head"):
            if changed := git(directory / side, "status", "--porcelain"):
                yield f"{side} is not the commit: {changed}"
        if changed := git(self._clone, "status", "--porcelain"):
            yield f"the repository was changed: {changed}"
