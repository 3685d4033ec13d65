"""Settings that several commands share."""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

from datagen.make import Wanted
from datagen.schema import scale_factor
from datagen.workload import known_workload
from deltamark import DeltamarkError
from harness.cell import ALL, Cell
from harness.distributed import SPARK
from harness.engines import ENGINES, known
from queries.catalogue import QUERIES, query
from queries.parameters import parameters


def add_data(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_sf(parser)
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="where the data lies (default data)")
    add("--master", default="", metavar="URL", help="Spark master (default local[*], and as an engine a cluster here)")


def add_sf(parser: argparse.ArgumentParser) -> None:
    text = "scale factor, from 0.001 up (default 0.01)"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


def wanted(chosen: argparse.Namespace) -> Wanted:
    return Wanted(chosen.data, chosen.sf, chosen.master or Wanted.master)


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add what names a query's answer, wherever it is computed."""
    add = parser.add_argument
    add("query", help=f"{min(QUERIES)} to {max(QUERIES)}")
    text = "draw the parameters from the specification's ranges, which the query must have (default: for validation)"
    add("--seed", type=int, help=text)
    add("--param", action="append", default=[], metavar="NAME=VALUE", help="give a parameter; may be repeated")


def add_cell(parser: argparse.ArgumentParser) -> None:
    """Add what names a cell."""
    add = parser.add_argument
    add_data(parser)
    add_query(parser)
    add("--workload", default="insert", help="insert, window:N or refresh:K (default insert)")
    add("--logical", type=at_least_one, default=1, metavar="L", help="rounds that share a time (default 1)")
    add("--physical", type=physical, default=ALL, metavar="P", help="logical batches at once (default all)")
    add("--variant", default="", help="which dataflow (default the fastest)")
    add("--workers", type=at_least_one, default=1, metavar="W", help="how many (default 1)")
    add("--engine", default=ENGINES[0], help=f"{' or '.join(ENGINES)} (default {ENGINES[0]})")
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
        chosen.workers, known(chosen.engine), chosen.seed, given(chosen.param), chosen.master, chosen.checkpoint,
    )  # fmt: skip
    if cell.checkpoint and cell.engine != SPARK:
        raise DeltamarkError(f"no checkpoints of the engine {cell.engine}", cell.checkpoint, f"add --engine {SPARK}")
    parameters(cell.query, chosen.sf, cell.seed, dict(cell.given))
    return cell


def given(words: list[str]) -> tuple[tuple[str, str], ...]:
    """Read NAME=VALUE words."""
    pairs = [word.partition("=") for word in words]
    for word, (name, equals, _) in zip(words, pairs, strict=True):
        if not (name and equals):
            raise DeltamarkError("not a parameter", repr(word), "write --param name=value")
    return tuple((name, value) for name, _, value in pairs)


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise DeltamarkError("not a whole number from 1 up", repr(text), "write one such as 1000")
    return int(text)


def size(text: str) -> int:
    """Read a number such as 1000, 10K or 100M."""
    for unit, worth in (("K", 1000), ("M", 1_000_000)):
        if text.endswith(unit):
            return at_least_one(text.removesuffix(unit)) * worth
    return at_least_one(text)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(at_least_one(each) for each in text.split(","))


def physical(text: str) -> int:
    return ALL if text == "all" else at_least_one(text)
