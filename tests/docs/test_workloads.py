"""The manual defines every workload."""

from __future__ import annotations

import re

from support.manual import PAGES

from deltamark.datagen.schema import Relations
from deltamark.datagen.workloads.registry import KINDS, NAMES

ROWS = dict(re.findall(r"^\| `([a-z]+(?::[A-Z])?)` \|(.*?)\| \w.* \|$", PAGES["docs/workloads.md"], re.MULTILINE))
"""The needs of each workload in the table of definitions."""


def test_every_workload_has_a_row_in_the_manual():
    assert sorted(ROWS) == sorted(NAMES)


def test_a_workload_that_needs_something_says_so():
    described = {name.partition(":")[0] for name, needs in ROWS.items() if needs.strip()}
    assert described - {"changes"} == {name for name, kind in KINDS.items() if kind.lacks(Relations([]))}
