"""Docstrings, comments, names of tests and the manual avoid the worst patterns of prose.

The patterns are few, and each match is a fault. A sentence that has none of them may still be bad.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.manual import PAGES, prose
from support.paths import ROOT

PATTERNS = {
    "a free relative": r"\bwhat (is|are|was|were) (there|asked|told|kept|given)\b",
    "a free relative at the beginning": r"\A(What|Whom) ",
    "a number without a name": r"\bso many\b(?! (\w+ ){1,4}that\b)",
    "a preposition at the beginning": r"\AOf (a|an|the|each|what) ",
    "a question for a statement": r"\A(Is|Are|Has|Have|Does|Do|Can|May|Must) [^.]*\?",
    "people for code": r"\b(nobody|somebody|anybody|whoever|whom)\b",
    "a relative without a verb": r"\bof an? \w+ which\b",
    "code that is told": r"\b(is|are|was|were) told\b",
    "half a sentence": r"\A(How many|How much|By turns)\b",
}
"""The patterns by their names in failures."""

CHECKED = (
    ".github", "database", "datagen", "dataflow", "deltamark", "examples", "harness", "queries", "tests",
)  # fmt: skip
"""The sources that have no fault. Add each folder that has lost its last one."""


COMMENT = re.compile(r"(?:^|\s)# *(.*)")
"""A comment, or a part of a string that looks like one."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Return the docstrings, the comments and the names of tests in a file, with the numbers of their lines."""
    source = path.read_text(encoding="utf-8")
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ").capitalize()
    for number, line in enumerate(source.splitlines(), 1):
        if "#" in line and (comment := COMMENT.search(line)):
            yield number, comment[1]


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a syntax tree at all levels."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(tree, name, ()):
            yield each
            yield from statements(each)


def faults(text: str) -> list[str]:
    return [name for name, pattern in PATTERNS.items() if re.search(pattern, text)]


def faults_of(path: Path) -> list[str]:
    return [
        f"{path}:{line}: {fault}: {text.splitlines()[0][:80]}" for line, text in texts(path) for fault in faults(text)
    ]


@pytest.mark.parametrize("name", CHECKED)
def test_sources_are_plain_english(name):
    place = ROOT / name
    assert place.exists()
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert [fault for file in files for fault in faults_of(file)] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_manual_is_plain_english(page):
    assert faults(prose(page)) == []


@pytest.mark.parametrize(
    "text",
    [
        "What a task reads.", "Return the address of so many words.", "Of a key that is one column.",
        "Has this machine compiled these kernels?", "Columns are made when somebody asks for them.",
        "A list of what is there.", "The engine is told the time.", "How many batches there are.",
    ],
)  # fmt: skip
def test_faults_are_found(text):
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "There are so many rows that they do not fit.", "Return what the body yields.", "Of course this is rare.",
        "Do nothing.", "The arrangement of each key.", "Whether the row is live.",
    ],
)  # fmt: skip
def test_plain_sentences_have_no_fault(text):
    assert faults(text) == []
