"""Set up engines of others, each in a folder of its own: .peers/NAME.

The set-up fetches packages from the registry of the engine's language, and builds the adapter in peers/NAME. It never
changes the environment of this project. `make peers` lists the engines and what they need.

Example: make peer PEER=differential
"""

from __future__ import annotations

import argparse

from deltamark.harness.console.console import say
from deltamark.harness.engines.peers import known_peer, peer, set_up


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("peer", type=_known_peers, help="names of peers, with commas")


def run(args: argparse.Namespace) -> int:
    for name in args.peer:
        set_up(peer(name))
        say(f"{name} is ready: make conformance ENGINE={name}, make bench ENGINES=embedded,{name}")
    return 0


def _known_peers(text: str) -> list[str]:
    return [known_peer(name) for name in text.split(",")]
