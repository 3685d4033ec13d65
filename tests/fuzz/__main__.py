"""Run random plans on every engine, and compare their answers with plain Python and with DuckDB.

An example is drawn from a seed; the next example has the next seed.
"""

from __future__ import annotations

import argparse
import gc
import random
import signal
import sys
from collections.abc import Sequence
from math import inf

from support.engines.driving import at_once
from support.front_end import shared_front_end

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.cli.options import whole
from deltamark.harness.cli.parser import Parser
from deltamark.harness.engines.external import named
from deltamark.harness.engines.peers import PEERS
from fuzz.kinds import KINDS, fuzz_engine
from fuzz.queries import client as clients
from fuzz.watch import FuzzSettings, explore

SECONDS = 60
MOST_SECONDS, MOST_EXAMPLES, MOST_PROCESSES = 10**7, 10**15, 64
SEED_BITS = 40


def settings_of(words: Sequence[str]) -> FuzzSettings:
    parser = Parser(prog="make fuzz", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=whole(1, MOST_SECONDS), metavar="N", help=f"how long (default {SECONDS}, without EXAMPLES)")
    add("--examples", type=whole(1, MOST_EXAMPLES), metavar="N", help="how many (default: as many as the time allows)")
    add("--seed", type=whole(0, MOST_EXAMPLES), metavar="N", help="seed of the first example (default: any)")
    add("--kinds", type=kinds, default=list(KINDS), metavar="NAMES", help=f"of {','.join(KINDS)} (default all)")
    add("--engine", metavar="NAME", help="run the kind queries on an engine of others: a peer, or exec:PROGRAM")
    add("--timeout", type=whole(1, MOST_SECONDS), metavar="N", help="after how many seconds an engine of others hangs")
    add("--processes", type=whole(1, MOST_PROCESSES), default=2, metavar="N", help="how many at once (default 2)")
    chosen = parser.parse_settings(words)
    clients.REQUEST_TIMEOUT_S = float(chosen.timeout or clients.REQUEST_TIMEOUT_S)
    engine = "" if chosen.engine is None else known_text_engine(chosen.engine, chosen.kinds)
    seconds = chosen.seconds or (inf if chosen.examples else SECONDS)
    seed = random.getrandbits(SEED_BITS) if chosen.seed is None else chosen.seed
    chosen_kinds = ["queries"] if engine else chosen.kinds
    return FuzzSettings(seed, chosen.examples or MOST_EXAMPLES, seconds, chosen_kinds, chosen.processes, engine)


def known_text_engine(engine: str, kinds: list[str]) -> str:
    """Return the name of an engine of others, or raise a DeltamarkError."""
    if not named.is_external(engine):
        raise DeltamarkError("not an engine of others", engine, f"give {', '.join(PEERS)} or exec:PROGRAM")
    if kinds not in (list(KINDS), ["queries"]):
        raise DeltamarkError("kinds without texts of SQL", ",".join(kinds), "leave KINDS out, or give KINDS=queries")
    named.resolved(engine)
    return engine


def kinds(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in KINDS:
            raise unknown("kind of examples", name, KINDS)
    return names


def main(words: Sequence[str]) -> int:
    try:
        settings = settings_of(words)
    except (DeltamarkError, argparse.ArgumentError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    say = lambda text: print(text, flush=True)  # noqa: E731
    if settings.engine:
        fuzz_engine(settings.engine)
    say(f"examples of {', '.join(settings.kinds)} from seed {settings.seed} on")
    numbers = source("numbers", {"n": integer(0, 9)}, 10)
    at_once(numbers.join(numbers.rename(m="n"), on={"n": "m"}), {"numbers": [((1,), 0, 1)]})  # loads the kernels
    gc.collect()
    gc.freeze()  # forked children share the objects of this process
    with shared_front_end():
        failures = explore(settings, say).failures
    gc.unfreeze()
    return 1 if failures else 0


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM):  # a shell lets its jobs in the background ignore the first
        signal.signal(each, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
