"""Settings that several commands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from deltamark.datagen.make import Wanted
from deltamark.datagen.schema import LEAST_SF, MOST_SF, scale_factor
from deltamark.datagen.workload import known_workload
from deltamark.errors import DeltamarkError, shortened, whole_number
from deltamark.harness.engines.registry import DEFAULT, STREAM_ENGINES, capabilities, known_stream_engine
from deltamark.harness.measure.cell import ALL, Cell
from deltamark.queries.catalogue import QUERIES, query
from deltamark.queries.parameters import parameters

MOST_BATCHES = 10**12
"""Logical batches, their rounds, or timed ones: more than any stream has."""

MOST_WORKERS = 1024
"""Shards on Spark; the embedded engine has a lower limit of its own."""

MOST_SIZE = 10**10
"""Nodes, edges and changes of a random graph."""

MOST_SEED, MOST_TIMES = 10**18, 10**6
LEAST_SECONDS, MOST_SECONDS = 0.001, 1_000_000


def add_data(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_sf(parser)
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="where the data lies (default data)")
    add("--master", default="", metavar="URL", help="Spark master (default local[*], and as an engine a cluster here)")


def add_sf(parser: argparse.ArgumentParser) -> None:
    text = f"scale factor, from {LEAST_SF} to {MOST_SF} (default 0.01)"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


def wanted(chosen: argparse.Namespace) -> Wanted:
    return Wanted(chosen.data, chosen.sf, chosen.master or Wanted.master)


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add what names a query's answer, wherever it is computed."""
    add = parser.add_argument
    add("query", help=f"{min(QUERIES)} to {max(QUERIES)}")
    text = "draw the parameters from the specification's ranges, which the query must have (default: for validation)"
    add("--seed", type=whole(0, MOST_SEED), help=text)
    add("--param", action="append", default=[], metavar="NAME=VALUE", help="give a parameter; may be repeated")


def add_cell(parser: argparse.ArgumentParser) -> None:
    """Add what names a cell."""
    add = parser.add_argument
    add_data(parser)
    add_query(parser)
    add("--workload", default="insert", help="insert, window:N or refresh:K (default insert)")
    add("--logical", type=batch_size, default=1, metavar="L", help="rounds that share a time (default 1)")
    add("--physical", type=physical, default=ALL, metavar="P", help="logical batches at once (default all)")
    add("--variant", default="", help="which dataflow (default the fastest)")
    add("--workers", type=worker_count, default=1, metavar="W", help="how many (default 1)")
    add("--engine", default=DEFAULT, help=f"{' or '.join(STREAM_ENGINES)} (default {DEFAULT})")
    add("--checkpoint", default="", metavar="DIR", help="of a query on Spark, to go on from (default: none is kept)")


def add_end(parser: argparse.ArgumentParser) -> None:
    """Add where a stream is to end."""
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--rounds", type=int, metavar="N", help="stop after N rounds (default all)")
    end.add_argument("--at", type=int, metavar="TIME", help="stop with a logical time")


def cell_of(chosen: argparse.Namespace) -> Cell:
    """Return the cell that a command asks for. A wrong setting is an error here, before any data is made."""
    asked = query(chosen.query)
    variant = chosen.variant and asked.known(chosen.variant)
    cell = Cell(
        chosen.query, str(chosen.sf), known_workload(chosen.workload), chosen.logical, chosen.physical, variant,
        chosen.workers, known_stream_engine(chosen.engine), chosen.seed, given(chosen.param), chosen.master,
        chosen.checkpoint,
    )  # fmt: skip
    if cell.checkpoint and not capabilities(cell.engine).resumes:
        remedy = f"add --engine {next(name for name in STREAM_ENGINES if capabilities(name).resumes)}"
        raise DeltamarkError(f"no checkpoints of the engine {cell.engine}", cell.checkpoint, remedy)
    parameters(cell.query, chosen.sf, cell.seed, dict(cell.given))
    return cell


def given(words: list[str]) -> tuple[tuple[str, str], ...]:
    """Read NAME=VALUE words."""
    pairs = [word.partition("=") for word in words]
    for word, (name, equals, _) in zip(words, pairs, strict=True):
        if not (name and equals):
            raise DeltamarkError("not a parameter", repr(word), "write --param name=value")
    return tuple((name, value) for name, _, value in pairs)


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return what reads a whole number from `low` to `high`."""
    return lambda text: whole_number(text, low, high)


def several(low: int, high: int) -> Callable[[str], tuple[int, ...]]:
    """Return what reads whole numbers from `low` to `high`, between commas."""
    return lambda text: tuple(whole_number(each, low, high) for each in text.split(","))


def seconds(text: str) -> float:
    """Read a number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not LEAST_SECONDS <= value <= MOST_SECONDS:
        remedy = f"write a number from {LEAST_SECONDS} to {MOST_SECONDS}"
        raise DeltamarkError("not a number of seconds", shortened(text), remedy)
    return value


def size(text: str) -> int:
    """Read a number such as 1000, 10K or 100M."""
    for unit, worth in (("K", 1000), ("M", 1_000_000)):
        if text.endswith(unit):
            return whole_number(text.removesuffix(unit), 1, MOST_SIZE // worth) * worth
    return whole_number(text, 1, MOST_SIZE)


def physical(text: str) -> int:
    return ALL if text == "all" else batch_size(text)


batch_size, worker_count = whole(1, MOST_BATCHES), whole(1, MOST_WORKERS)
batch_sizes, worker_counts = several(1, MOST_BATCHES), several(1, MOST_WORKERS)
