"""The gate is silent on equal sides, detects a tenth more, and names the cells that it cannot judge."""

from __future__ import annotations

import pytest
from support.harness.fake_sides import CELLS, fake_gate

from deltamark.harness.compare.cells import QUERIES, WORKLOADS, motif_cells
from deltamark.harness.compare.gate import ComparisonHeader, as_markdown, as_text, headline
from deltamark.harness.compare.rule import CONFIRM_PAIRS, PEAK, QUANTITIES, SCREEN_PAIRS, STATE, TIME

HEADER = ComparisonHeader("base (main, 0123)", "head (work tree, 4567)", "a machine", "make compare")


@pytest.mark.parametrize("seed", range(3))
def test_base_against_base_is_silent(seed):
    outcome = fake_gate(seed=seed).run()
    assert outcome.exit_code == 0
    assert {judgement.change.verdict for judgement in outcome.judgements} <= {"unchanged", "inconclusive"}
    assert outcome.verdict == ("undecided" if outcome.judged("inconclusive") else "unchanged")
    assert len(outcome.judgements) == len(QUANTITIES) * (len(CELLS) + len(QUERIES) * len(WORKLOADS))


def test_a_tenth_more_time_is_a_regression():
    outcome = fake_gate(head={"time": 1.1}).run()
    assert (outcome.exit_code, outcome.verdict) == (1, "regression")
    assert {judgement.change.quantity for judgement in outcome.judged("regression")} == {TIME}
    assert len(outcome.judged("regression")) > len(CELLS)


@pytest.mark.parametrize("quantity", [STATE, PEAK])
def test_more_memory_is_a_regression(quantity):
    outcome = fake_gate(head={quantity.name: 1.1}).run()
    assert outcome.exit_code == 1
    assert {judgement.change.quantity for judgement in outcome.judged("regression")} == {quantity}


def test_less_time_is_an_improvement():
    outcome = fake_gate(head={"time": 0.8}).run()
    assert outcome.exit_code == 0
    assert outcome.judged("improvement")
    assert "improvements" in headline(outcome)


@pytest.mark.parametrize("when", ["check fails", "sample fails"])
def test_a_cell_that_head_cannot_run_is_exit_code_2(when):
    outcome = fake_gate(head={when: {"q09": "wrong: row 1"}, "time": 1.1}).run()
    assert (outcome.exit_code, outcome.verdict) == (2, "wrong")
    assert {cell.query for cell in outcome.broken} == {"q09"}
    assert all(cell.query != "q09" for judgement in outcome.judgements for cell in judgement.cells)
    assert "BROKEN q09 1x3000: wrong: row 1\npython -m harness changes q09" in as_text(outcome)


def test_motifs_are_judged_like_queries():
    cells = motif_cells(12)
    silent = fake_gate(cells).run()
    assert silent.exit_code == 0
    assert len(silent.judgements) == len(QUANTITIES) * len(cells)
    slower = fake_gate(cells, head={"time": 1.1}).run()
    assert slower.exit_code == 1
    assert {judgement.cells for judgement in slower.judged("regression")} == {(cell,) for cell in cells}


def test_a_wrong_count_is_exit_code_2_and_names_the_command_that_repeats_it():
    outcome = fake_gate(motif_cells(12), head={"check fails": {"4-clique": "wrong: 5, by hand 6"}}).run()
    assert outcome.exit_code == 2
    again = "python -m harness motif 4-clique --graph rmat:12 --orient --static --check 1"
    assert f"BROKEN 4-clique rmat:12 static: wrong: 5, by hand 6\n{again}\n" in as_text(outcome)


def test_another_stream_is_exit_code_2():
    outcome = fake_gate(head={"digest": "1 bb"}).run()
    assert outcome.exit_code == 2
    assert outcome.broken[CELLS[0]] == f"another stream than base's: 1 bb, not 1 aa\n{CELLS[0].again}"


@pytest.mark.parametrize("when", ["check fails", "sample fails"])
def test_a_cell_that_base_cannot_run_is_not_compared(when):
    outcome = fake_gate(base={when: {"q09": "failed: no such query"}}).run()
    assert (outcome.exit_code, outcome.verdict) == (0, "undecided")
    assert {cell.query for cell in outcome.skipped} == {"q09"}
    assert "not compared: q09 1x3000\n```\nbase: failed: no such query\n" in as_markdown(outcome, HEADER)


@pytest.mark.parametrize("sides", [["base"], ["head"], ["base", "head"]])
def test_a_query_that_a_side_refuses_is_no_failure(sides):
    refusal = {"check fails": {"q09": "refused: no LIKE"}}
    outcome = fake_gate(**dict.fromkeys(sides, refusal)).run()
    assert (outcome.exit_code, outcome.verdict, outcome.broken) == (0, "undecided", {})
    assert {cell.query for cell in outcome.skipped} == {"q09"}
    assert f"not compared: q09 1x3000: {sides[-1]}: refused: no LIKE\n" in as_text(outcome)


def test_the_order_of_the_sides_alternates_between_repetitions():
    log = []
    fake_gate(CELLS[:2], log=log).run()
    first, second = CELLS[:2]
    even = [(first, "base"), (first, "head"), (second, "base"), (second, "head")]
    odd = [(first, "head"), (first, "base"), (second, "head"), (second, "base")]
    assert log[:40] == (even + odd) * 5


def test_confirming_pairs_are_fresh():
    log = []
    fake_gate(CELLS[:1], log=log, head={"time": 1.1}).run()
    assert len(log) == 2 * (SCREEN_PAIRS + CONFIRM_PAIRS)


def test_an_interrupted_gate_judges_the_pairs_so_far():
    gate = fake_gate(CELLS[:1], head={"time": 1.1})
    log = []
    gate.report = lambda what, done, _: log.append(done) or interrupt(what, done)

    def interrupt(what, done):
        if (what, done) == ("confirming", 4):
            raise KeyboardInterrupt

    outcome = gate.run()
    assert outcome.exit_code == 130
    changes = [judgement.change for judgement in outcome.judgements]
    assert {change.verdict for change in changes if change.quantity == TIME} == {"inconclusive"}
    assert outcome.verdict == "interrupted"
    assert headline(outcome) == "interrupted; 2 unchanged, 1 inconclusive"


def test_a_gate_that_is_interrupted_at_once_judges_nothing():
    gate = fake_gate()

    def interrupt(*_):
        raise KeyboardInterrupt

    gate.report = interrupt
    outcome = gate.run()
    assert outcome.exit_code == 130
    assert headline(outcome) == "interrupted; nothing was compared"
