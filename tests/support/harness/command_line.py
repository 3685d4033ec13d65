"""Runs of the command line in tests."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from support.paths import ROOT

from deltamark.harness.cli.main import main


def error_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """Run a command that must fail; return its error, which must be one line."""
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    return errors


def harness(*words: str, limit: tuple[int, int] | None = None, **settings: object) -> tuple[int, str]:
    """Run the command line in its own process, under a limit of a resource; return its exit code and its errors.

    A limited process writes no bytecode: a file that may not grow would be cut, and no later process could import it.
    """
    if limit:
        settings |= {
            "env": {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            "preexec_fn": lambda: resource.setrlimit(limit[0], (limit[1], limit[1])),
        }
    process = subprocess.run(
        [sys.executable, "-m", "harness", *words], cwd=ROOT, check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **settings},
    )  # fmt: skip
    return process.returncode, process.stderr
