"""Each rewrite of a plan, as text: the plan without it, and with it.

A file of `rewrites/` is named as the rule, and has a sentence, tables, a query, and the two plans. The query is a text
of SQL, or, in files named `RULE.by_hand.txt`, an expression over the collections; the first plan is then the plan as it
is written. WRITE=yes in the environment writes the plans of a new file.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltamark import col, sql, sql_tables
from deltamark.dataflow.passes import optimize
from deltamark.dataflow.passes.join_order import JoinGraph

FILES = sorted((Path(__file__).parent / "rewrites").glob("*.txt"))

LEFT_OUT = {
    "computed_early": (JoinGraph, lambda *_: {}),
    "with_extremes": (optimize, lambda tree: tree),
    "with_limits": (optimize, lambda tree, _: tree),
    "with_reused_groups": (optimize, lambda *_: ()),
    "without_left_join": (optimize, lambda _: None),
    "without_reductions": (optimize, lambda tree: tree),
}
"""Where the rules are, and what stands for each of them if it finds nothing to rewrite."""


def explained(collection):
    return "\n".join(line.rstrip() for line in collection.explain().splitlines())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_rewrite_changes_the_plan_as_written(file, monkeypatch):
    parts = file.read_text(encoding="utf-8").split("\n---\n")
    tables, (rule, _, by_hand) = sql_tables(parts[1], rows=1000), file.stem.partition(".")
    if by_hand:
        written = eval(parts[2], {"col": col, **tables})
        before, after = explained(written), explained(written.optimized())
    else:
        after = explained(sql(parts[2], tables))
        place, stand_in = LEFT_OUT[rule]
        monkeypatch.setattr(place, rule, stand_in)
        before = explained(sql(parts[2], tables))
    assert before != after
    text = "\n---\n".join([*(each.rstrip("\n") for each in parts[:3]), before, after]) + "\n"
    if os.environ.get("WRITE") == "yes":
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
