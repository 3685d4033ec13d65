"""A git repository of a toy engine: it is right, and says that a batch takes as long as a file of the commit says."""

from __future__ import annotations

from support.harness.history_records import git
from support.harness.programs import EXAMPLE_FILE

ENGINE = f"""
import pathlib, runpy, time

SECONDS = float((pathlib.Path(__file__).parent / "seconds").read_text())

class Engine(runpy.run_path({str(EXAMPLE_FILE)!r})["Engine"]):
    def apply(self, request):
        began = time.perf_counter()
        reply = super().apply(request)
        time.sleep(max(SECONDS - (time.perf_counter() - began), 0))
        return reply | {{"seconds": SECONDS}}
"""
BUILD = "cp source seconds"
"""The command that builds a commit: the engine reads a file that the repository ignores."""


def engine_repository(root, seconds):
    """Make a repository with a commit a day for each number of seconds."""
    root.mkdir()
    git(root, "init", "--initial-branch=main")
    (root / "engine.py").write_text(ENGINE)
    (root / ".gitignore").write_text("seconds\n")
    for number, each in enumerate(seconds):
        day = f"2026-01-{number + 1:02}T12:00:00Z"
        (root / "source").write_text(str(each))
        git(root, "add", "--all")
        git(root, "commit", "--allow-empty", f"--message=take {each} s", GIT_AUTHOR_DATE=day, GIT_COMMITTER_DATE=day)
    return root
