"""The README's code runs, and its words are true."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    given = {
        "time": np.array([0, 0, 1]), "diff": np.array([1, 1, -1]),
        "shops": np.array([7, 7, 7]), "cents": np.array([900, 250, 900]),
    }  # fmt: skip
    exec(code, given)
    out = given["out"]
    assert out.time.tolist() == [0, 1]
    assert out.diff.tolist() == [1, -1]
    assert out.columns["revenue"].tolist() == [900, 900]


def test_the_files_that_it_names_are_there():
    named = re.findall(r"`((?:datagen|dataflow|harness|queries|tests)/[\w/.]*)`", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_targets_that_it_names_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`| {4})make ([a-z][\w-]*)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
