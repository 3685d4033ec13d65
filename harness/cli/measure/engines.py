"""Commands about engines of others: their list, their set-up, and what each may claim."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.parser import Parser
from deltamark.harness.conformance.cases import CASES, NULL_CASES, Case
from deltamark.harness.conformance.run import ATTACHED_AFTER, RESTORED, Outcome, attached_case, run_all, times_of
from deltamark.harness.console.console import say
from deltamark.harness.console.table import Table, text, words
from deltamark.harness.engines.external.named import greeting, is_external
from deltamark.harness.engines.peers import PEERS, Peer, known_peer, peer, set_up


@command("peers")
def list_peers(_: Namespace) -> int:
    """List the engines of others that can be measured, with what is missing on this machine.

    Each has a folder in peers/ with its manifest, its adapter and its documentation.

    Example: make peers
    """
    rows = [[words(each) for each in _row(peer(name))] for name in PEERS]
    headers = ["peer", "engine", "licence", "output", "how", "state"]
    say(text(Table("peers", "Engines of others", headers, rows, ["set one up: make peer PEER=name"])))
    return 0


def _row(each: Peer) -> tuple[str, ...]:
    own = each.manifest
    return each.name, own.name, own.licence, own.output, "maintains" if own.maintains else "recomputes", _state(each)


def _state(each: Peer) -> str:
    """Describe whether a peer can be used, or what is missing."""
    if each.is_ready:
        return "ready" if each.is_current else "set up from other files: set it up again"
    if each.missing:
        return "; ".join(f"{tool.program} is missing: {tool.hint}" for tool in each.missing)
    return "not set up"


def _add_peers(parser: Parser) -> None:
    parser.add_argument("peer", type=_known_peers, help="names of peers, with commas")


def _known_peers(text: str) -> list[str]:
    return [known_peer(name) for name in text.split(",")]


@command("peer", _add_peers)
def set_up_peers(args: Namespace) -> int:
    """Set up engines of others, each in a folder of its own: .peers/NAME.

    The set-up fetches packages from the registry of the engine's language, and builds the adapter in peers/NAME. It
    never changes the environment of this project. `make peers` lists the engines and what they need.

    Example: make peer PEER=differential
    """
    for name in args.peer:
        set_up(peer(name))
        say(f"{name} is ready: make conformance ENGINE={name}, make bench ENGINES=embedded,{name}")
    return 0


def _add_engine(parser: Parser) -> None:
    parser.add_argument("engine", help="exec:PROGRAM, or a peer that is set up")


@command("conformance", _add_engine)
def conformance(args: Namespace) -> int:
    """Run small cases on an external engine, and say what the engine may claim.

    The cases are a few rows each: empty batches, retractions, duplicates, NULL in answers and in inputs, deletion to
    nothing, several times in one batch. The answers are compared with DuckDB's, those of a stream at all times within
    batches, too. A line shows the time of larger batches by the engine, by the harness and by the processors.
    docs/protocol.md describes the protocol. Exit code 2 means that a case failed.

    Example: make conformance ENGINE=exec:examples/recompute.py
    """
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
        taken = {outcome.name for outcome in outcomes if not outcome.refused}

        def takes(cases: Iterable[Case]) -> bool:
            return any(not taken.isdisjoint((case.name, case.before_deletions.name)) for case in cases)

        if not takes(CASES):
            return "may claim nothing: it refuses the queries of all cases"
        nulls = ", with NULL in its inputs" if takes(NULL_CASES) else ""
        deletes = "" if any(case.name in taken for case in CASES if case.deletions) else ", without deletions"
        snapshots = ", with snapshots" if RESTORED in taken else ""
        queries = ", with further queries" if taken.issuperset(map(attached_case, ATTACHED_AFTER)) else ""
        return f"may claim: {output}{nulls}{deletes}{snapshots}{queries}"
    if output == "stream" and all(outcome.right_at_ends for outcome in outcomes):
        return "may not claim a stream; its answers at the ends of batches are right, so it may claim: batches"
    return "may claim nothing: an answer is wrong"
