"""Set up an engine of others, in a folder of its own: .peers/NAME.

The set-up fetches packages from the registry of the engine's language, and builds the adapter in peers/NAME. It never
changes the environment of this project. `make peers` lists the engines and what they need.

Example: make peer PEER=differential
"""

from __future__ import annotations

import argparse

from deltamark.harness.console.console import say
from deltamark.harness.peers.manifest import peer
from deltamark.harness.peers.setup import known_peer, set_up


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("peer", type=known_peer, help="name of the peer")


def run(args: argparse.Namespace) -> int:
    each = peer(args.peer)
    set_up(each)
    say(f"{each.name} is ready: make conformance ENGINE={each.name}, make bench ENGINES=embedded,{each.name}")
    return 0
