"""Settings that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import cast

from deltamark.datagen.make import Wanted
from deltamark.datagen.schema import MAX_SF, MIN_SF, scale_factor
from deltamark.datagen.workloads.registry import NAMES, applicable, known_workload
from deltamark.errors import DeltamarkError, shortened, whole_number
from deltamark.harness.benchmarks.benchmark import DEFAULT as DEFAULT_BENCHMARK
from deltamark.harness.benchmarks.benchmark import benchmark, included, named, parts
from deltamark.harness.benchmarks.cell import ALL, Cell
from deltamark.harness.engines.registry import DEFAULT, PLAN_ENGINES, capabilities, known_stream_engine

MAX_BATCHES = 10**12
"""The largest number of logical batches, of rounds in one, or of timed batches. No stream has as many."""

MAX_WORKERS = 1024
"""The largest number of shards on Spark. The embedded engine has a lower limit of its own."""

MAX_SIZE = 10**10
"""The largest number of nodes, edges or changes of a random graph."""

MAX_SEED, MAX_TIMES = 10**18, 10**6
MIN_SECONDS, MAX_SECONDS = 0.001, 1_000_000


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the data of any benchmark."""
    group = parser.add_argument_group("data")
    add_sf(group)
    group.add_argument("--data", type=Path, default=Path("data"), metavar="DIR", help="directory of the data")
    add_master(group)
    add_benchmark(parser)


class _Named(argparse.Action):
    """Names the benchmark by its folder and by the settings that are part of the name, in any order."""

    def __call__(self, _: argparse.ArgumentParser, to: argparse.Namespace, value: object, __: object = None) -> None:
        folder, settings = parts(getattr(to, "benchmark", DEFAULT_BENCHMARK))
        if self.dest == "benchmark":
            folder = str(value)
        else:
            settings[self.dest] = str(value)
        to.benchmark = named(folder, settings)


def add_benchmark(parser: argparse._ActionsContainer) -> None:
    text = f"{', '.join(included())}, or a folder of Parquet files and SQL (default: {DEFAULT_BENCHMARK})"
    parser.add_argument("--benchmark", default=DEFAULT_BENCHMARK, action=_Named, metavar="B", help=text)
    add, text = (
        partial(parser.add_argument, default=argparse.SUPPRESS, action=_Named),
        "for a folder without benchmark.toml",
    )
    add("--keys", metavar="R:C+C,R:C", help=f"columns of the keys of relations, {text}")
    add("--arrives", metavar="R:C,R:C", help=f"columns by whose values rows of relations arrive, {text}")


def add_master(parser: argparse._ActionsContainer) -> None:
    text = "Spark master (default: local[*], and for the engine spark a cluster on this machine)"
    parser.add_argument("--master", default="", metavar="URL", help=text)


def add_sf(parser: argparse._ActionsContainer) -> None:
    text = f"scale factor, from {MIN_SF} to {MAX_SF}"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


def add_own_data(parser: argparse.ArgumentParser) -> None:
    """Add the workloads whose own data is meant, too."""
    text = "workloads with data of their own, such as zipf:1, separated by commas (default: none)"
    parser.add_argument("--workload", type=words, default=(), metavar="W,W", help=text)


def data_request(args: argparse.Namespace) -> Wanted:
    """Return the request for the data of a command, with the data of the workloads that it names."""
    named = vars(args).get("workload", ())
    workloads = words(named) if named and isinstance(named, str) else named or ()
    source = benchmark(vars(args).get("benchmark", DEFAULT_BENCHMARK)).source
    names = tuple(applicable(name, source.relations) for name in workloads)
    return Wanted(args.data, args.sf, args.master or Wanted.master, workloads=names, source=source)


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add the query and its parameters."""
    text = "query, such as q01, or the path of a file in Python or SQL"
    parser.add_argument("query", nargs="?", default=argparse.SUPPRESS, help=text)
    parser.add_argument("--sql", dest="query", type=sql_file, metavar="FILE", help="a file of SQL, as the query")
    add = parser.add_argument_group("query").add_argument
    text = "seed that draws the query's parameters from the specification's ranges (default: validation parameters)"
    add("--seed", type=whole(0, MAX_SEED), help=text)
    add("--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the query; may be repeated")


def add_cell(parser: argparse.ArgumentParser) -> None:
    """Add the settings of a cell."""
    add_data(parser)
    add_query(parser)
    add = parser.add_argument_group("stream").add_argument
    text = f"{', '.join(NAMES)} (default: insert, or changes if the data has any)"
    add("--workload", default="", help=text)
    add("--logical", type=batch_size, default=1, metavar="L", help="rounds that share a logical time")
    add("--physical", type=physical, default="all", metavar="P", help="logical batches fed at once")
    add = parser.add_argument_group("engine").add_argument
    add("--variant", default="", help="variant of the query's dataflow (default: the first in its file)")
    add("--workers", type=worker_count, default=1, metavar="W", help="number of workers")
    add("--engine", default=DEFAULT, help=f"{', '.join(PLAN_ENGINES)}, or another engine with a change stream")
    text = "directory from which a query on Spark continues (default: no checkpoint is kept)"
    add("--checkpoint", default="", metavar="DIR", help=text)


def add_end(parser: argparse.ArgumentParser) -> None:
    """Add the end of the stream."""
    end = parser.add_argument_group("end of the stream").add_mutually_exclusive_group()
    end.add_argument("--rounds", type=int, metavar="N", help="stop after N rounds (default: after all)")
    end.add_argument("--at", type=int, metavar="TIME", help="stop after a logical time")


def cell_of(args: argparse.Namespace) -> Cell:
    """Return the cell that a command names. A wrong setting is an error here, before any data is made."""
    if args.query is None:
        names = ", ".join(benchmark(args.benchmark).queries)
        raise DeltamarkError("no query", "none is named", f"name one of {names}, or give --sql FILE")
    home = benchmark(args.benchmark)
    variant = args.variant and home.query(args.query).known(args.variant)
    cell = Cell(
        args.query, str(home.source.scale(args.sf)), known_workload(args.workload or home.workload),
        args.logical, args.physical, variant, args.workers, known_stream_engine(args.engine), args.seed,
        given(args.param), args.master, args.checkpoint, args.benchmark,
    )  # fmt: skip
    if cell.checkpoint and not capabilities(cell.engine).resumes:
        remedy = f"add --engine {next(name for name in PLAN_ENGINES if capabilities(name).resumes)}"
        raise DeltamarkError(f"no checkpoints of the engine {cell.engine}", cell.checkpoint, remedy)
    _ = cell.parameters  # a wrong one is an error
    return cell


def given(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read words of the form NAME=VALUE."""
    return tuple(map(_name_and_value, words))


def _name_and_value(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise DeltamarkError("not a parameter", repr(word), "write --param name=value")
    return name, value


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of a whole number from `low` to `high`."""
    return lambda text: whole_number(text, low, high)


def several(low: int, high: int) -> Callable[[str], tuple[int, ...]]:
    """Return a reader of whole numbers from `low` to `high`, separated by commas."""
    return lambda text: tuple(whole_number(number, low, high) for number in text.split(","))


def words(text: str) -> tuple[str, ...]:
    """Read words that are separated by commas, none of which is empty."""
    found = tuple(text.split(","))
    if "" in found:
        raise DeltamarkError("an empty word in a list", shortened(text), "write words with single commas between them")
    return found


def sql_file(text: str) -> str:
    """Read the name of a file of SQL."""
    if not text.endswith(".sql"):
        raise DeltamarkError("not the name of a file of SQL", shortened(text), "give it a name that ends in .sql")
    return text


def sql_files(text: str) -> tuple[str, ...]:
    """Read names of files of SQL that are separated by commas."""
    return tuple(map(sql_file, words(text)))


class Added(argparse.Action):
    """Adds words to those that other options have given."""

    def __call__(self, _: argparse.ArgumentParser, to: argparse.Namespace, values: object, __: object = None) -> None:
        setattr(to, self.dest, (*(getattr(to, self.dest, None) or ()), *cast("Iterable[str]", values)))


def seconds(text: str) -> float:
    """Read a number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not MIN_SECONDS <= value <= MAX_SECONDS:
        remedy = f"write a number from {MIN_SECONDS} to {MAX_SECONDS}"
        raise DeltamarkError("not a number of seconds", shortened(text), remedy)
    return value


def size(text: str) -> int:
    """Read a number such as 1000, 10K or 100M, or 10k or 100m."""
    for unit, factor in (("K", 1000), ("M", 1_000_000)):
        if text.upper().endswith(unit):
            return whole_number(text[:-1], 1, MAX_SIZE // factor) * factor
    return whole_number(text, 1, MAX_SIZE)


def physical(text: str) -> int:
    """Read a number of logical batches, or `all`."""
    return ALL if text == "all" else batch_size(text)


batch_size, worker_count = whole(1, MAX_BATCHES), whole(1, MAX_WORKERS)
batch_sizes, worker_counts = several(1, MAX_BATCHES), several(1, MAX_WORKERS)
