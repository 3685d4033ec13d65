"""Each rewrite of a plan of SQL, as text: the plan without it, and with it.

A file of `rewrites/` is named as the rule, and has a sentence, tables, a query, and the two plans. WRITE=yes in the
environment writes the plans of a new one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltamark import sql, sql_tables
from deltamark.dataflow.sql import lowering

FILES = sorted((Path(__file__).parent / "rewrites").glob("*.txt"))

LEFT_OUT = {"with_reused_groups": lambda _: (), "aggregated_without_join": lambda *_: None}
"""The results of rules that find nothing to rewrite; others return the plan that they are given."""


def plan(tables: str, query: str) -> str:
    shown = sql(query, sql_tables(tables, rows=1000)).explain()
    return "\n".join(line.rstrip() for line in shown.splitlines())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_rewrite_changes_the_plan_as_written(file, monkeypatch):
    parts = file.read_text(encoding="utf-8").split("\n---\n")
    after = plan(parts[1], parts[2])
    monkeypatch.setattr(lowering, file.stem, LEFT_OUT.get(file.stem, lambda given: given))
    before = plan(parts[1], parts[2])
    assert before != after
    text = "\n---\n".join([*(each.rstrip("\n") for each in parts[:3]), before, after]) + "\n"
    if os.environ.get("WRITE") == "yes":
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
