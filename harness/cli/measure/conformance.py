"""Run small cases on an external engine, and say what the engine may claim.

The cases are a few rows each: empty batches, retractions, duplicates, NULL in answers and in inputs, deletion to
nothing, several times in one batch. The answers are compared with DuckDB's, those of a stream at all times within
batches, too. A line shows the time of larger batches by the engine, by the harness and by the processors.
docs/protocol.md describes the protocol. Exit code 2 means that a case failed.

Example: make conformance ENGINE=exec:examples/recompute.py
"""

from __future__ import annotations

import argparse

from deltamark.errors import DeltamarkError
from deltamark.harness.conformance.cases import CASES, NULL_CASES
from deltamark.harness.conformance.run import Outcome, run_all, times_of
from deltamark.harness.console.console import say
from deltamark.harness.engines.external.named import greeting, is_external
from deltamark.harness.engines.peers import PEERS


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine", help="exec:PROGRAM, or a peer that is set up")


def run(args: argparse.Namespace) -> int:
    if not is_external(args.engine):
        remedy = f"give exec:PROGRAM{', or ' + ', '.join(PEERS) if PEERS else ''}"
        raise DeltamarkError("not an external engine", args.engine, remedy)
    outcomes: list[Outcome] = []
    for outcome in run_all(args.engine):
        outcomes.append(outcome)
        say(f"{outcome.name}: {_verdict(outcome)}")
    failed = [outcome for outcome in outcomes if outcome.problem]
    refused = [outcome for outcome in outcomes if outcome.refused]
    said = greeting(args.engine)
    say(times_of(args.engine))
    say(f"{len(outcomes)} cases: {len(failed)} failed, {len(refused)} refused")
    say(f"{said.name} {_claim(said.output, outcomes)}")
    return 2 if failed else 0


def _verdict(outcome: Outcome) -> str:
    if outcome.refused:
        return f"refused: {outcome.refused}"
    return f"FAILED: {outcome.problem}" if outcome.problem else "ok"


def _claim(output: str, outcomes: list[Outcome]) -> str:
    """Describe what an engine may claim, from the outcomes of all cases."""
    if not any(outcome.problem for outcome in outcomes):
        refused = {outcome.refused.partition(":")[0] for outcome in outcomes}
        if not {case.query for case in CASES} - refused:
            return "may claim nothing: it refuses the queries of all cases"
        takes_null = {case.query for case in NULL_CASES} - refused
        return f"may claim: {output}{', with NULL in its inputs' if takes_null else ''}"
    if output == "stream" and all(outcome.right_at_ends for outcome in outcomes):
        return "may not claim a stream; its answers at the ends of batches are right, so it may claim: batches"
    return "may claim nothing: an answer is wrong"
