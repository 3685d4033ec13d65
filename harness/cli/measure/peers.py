"""List the engines of others that can be measured, with what is missing on this machine.

Each has a folder in peers/ with its manifest, its adapter and its documentation.

Example: make peers
"""

from __future__ import annotations

import argparse

from deltamark.harness.console.console import say
from deltamark.harness.console.table import Table, text, words
from deltamark.harness.engines.peers import PEERS, Peer, peer


def options(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    rows = [[words(each) for each in _row(peer(name))] for name in PEERS]
    headers = ["peer", "engine", "licence", "output", "how", "state"]
    say(text(Table("peers", "Engines of others", headers, rows, ["set one up: make peer PEER=name"])))
    return 0


def _row(each: Peer) -> tuple[str, ...]:
    own = each.manifest
    return each.name, own.name, own.licence, own.output, "maintains" if own.maintains else "recomputes", state(each)


def state(each: Peer) -> str:
    """Describe whether a peer can be used, or what is missing."""
    if each.is_ready:
        return "ready" if each.is_current else "set up from other files: set it up again"
    if each.missing:
        return "; ".join(f"{tool.program} is missing: {tool.hint}" for tool in each.missing)
    return "not set up"
