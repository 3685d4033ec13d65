"""The summary of a comparison: changes first, and `no change` only if everything was judged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median

import pytest
from support.harness.fake_sides import CELLS, fake_gate

from deltamark.harness.compare.gate import (
    EXIT_CODES,
    ComparisonHeader,
    Judgement,
    Outcome,
    as_json,
    as_markdown,
    as_text,
    headline,
    verdict_line,
)
from deltamark.harness.compare.rule import QUANTITIES, TIME, Change

HEADER = ComparisonHeader("base (main, 0123)", "head (work tree, 4567)", "a machine", "make compare")


def test_the_comment_begins_with_the_changes():
    outcome = fake_gate(head={"time": 1.1}).run()
    comment = as_markdown(outcome, HEADER)
    assert comment.startswith("### deltamark compare: ")
    assert comment.index("REGRESSION") < comment.index("<details>")
    assert "Control of fixed work" in comment
    assert "`make compare`" in comment


def test_larger_rows_of_state_are_distinguished_from_more_rows():
    larger, more = fake_gate(CELLS[:1], head={"state": 1.2}).run(), fake_gate(CELLS[:1], head={"rows": 1.2}).run()
    assert "q01 1x3000: a row of state has 200 bytes in base, 240 in head." in as_text(larger)
    assert json.loads(as_json(larger, HEADER))["bytes_per_row"]["q01 1x3000"] == {"base": 200.0, "head": 240.0}
    assert "a row of state" not in as_text(more), "its state is unchanged"


@pytest.mark.parametrize("factor", [0.0, 4e-5])
def test_sides_with_few_rows_or_none_have_no_bytes_per_row(factor):
    outcome = fake_gate(CELLS[:1], base={"rows": factor}, head={"state": 1.2}).run()
    assert "a row of state" not in as_text(outcome)
    assert json.loads(as_json(outcome, HEADER))["bytes_per_row"] == {"q01 1x3000": None}


def test_a_reader_can_recompute_each_change_of_a_cell():
    found = json.loads(as_json(fake_gate(CELLS[:2], head={"time": 1.1}).run(), HEADER))
    of_cells = [each for each in found["judgements"] if len(each["cells"]) == 1]
    assert {each["phase"] for each in of_cells} == {"screening", "confirming"}
    for each in of_cells:
        samples = found[each["phase"]][each["name"]]
        ratios = [math.log(pair["head"][each["quantity"]] / pair["base"][each["quantity"]]) for pair in samples]
        assert (each["ratio"], each["pairs"]) == (pytest.approx(math.exp(median(ratios))), len(ratios))


def test_tables_say_that_a_change_is_that_of_pairs():
    outcome = fake_gate(CELLS[:1], head={"time": 1.1}).run()
    for text in (as_text(outcome), as_markdown(outcome, HEADER)):
        assert "median change" in text
        assert "need not be the change of the medians" in text


def test_cells_with_too_little_to_do_are_named():
    outcome = fake_gate(CELLS[:1], base={"time": 0.1}, head={"time": 0.1}).run()
    assert outcome.exit_code == 0
    assert "Not judged by time, since both sides are below 50 ms: q01 1x3000; a larger SF or SCALE" in as_text(outcome)


def outcome_of(*verdicts, **more):
    """Return an outcome of one cell whose time, state and peak have these verdicts."""
    judgements = [
        Judgement((CELLS[0],), Change(quantity, 1, 1, 9, 0.0, (0.0, 0.0), verdict, "confirming"))
        for quantity, verdict in zip(QUANTITIES, verdicts, strict=False)
    ]
    return Outcome(judgements, **more)


@pytest.mark.parametrize("unknown", ["too small", "inconclusive"])
@pytest.mark.parametrize("at", range(len(QUANTITIES)))
def test_an_unjudged_quantity_never_reads_as_no_change(unknown, at):
    verdicts = ["unchanged"] * len(QUANTITIES)
    verdicts[at] = unknown
    outcome = outcome_of(*verdicts)
    assert headline(outcome) == f"2 unchanged, 1 {'too small to be judged' if unknown == 'too small' else unknown}"
    assert "no change" not in as_text(outcome) + as_markdown(outcome, HEADER)
    judged_by_memory_alone = unknown == "too small" and QUANTITIES[at] != TIME
    assert outcome.verdict == ("unchanged" if judged_by_memory_alone else "undecided")


def test_no_change_means_that_everything_was_judged():
    assert headline(outcome_of("unchanged", "unchanged", "unchanged")) == "no change"
    assert headline(outcome_of(skipped={CELLS[1]: "failed"})) == "1 not compared"
    assert outcome_of().verdict == outcome_of("unchanged", skipped={CELLS[1]: "failed"}).verdict == "undecided"


def test_each_verdict_has_its_word_and_make_cannot_hide_it():
    everything = ["regression", "improvement", "inconclusive"]
    outcomes = (
        outcome_of(*everything, broken={CELLS[1]: "wrong"}, interrupted=True),
        outcome_of(*everything, interrupted=True),
        outcome_of(*everything),
        outcome_of(*everything[1:]),
        outcome_of("improvement"),
        outcome_of("unchanged"),
    )
    assert [outcome.verdict for outcome in outcomes] == [*EXIT_CODES]
    line = verdict_line(outcome_of("regression"), Path(".compare", "verdict-tpch.txt"))
    assert line == "verdict: regression (exit code 1; make turns 1 into 2, .compare/verdict-tpch.txt has the word)"
