"""TPC-H: its eight relations, the specification of a scale factor (rows, bounds of columns, words of codes), and the
generator, a Spark job in which one task runs tpchgen-cli for one part of every relation.

Plans can be built from the specification without data. A manifest has the exact numbers instead. A part is published
by renaming its directory, so an interrupted generation continues with the missing parts. The rows do not depend on the
number of parts.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.schema import Relations, relation
from deltamark.datagen.source import Parts, Source, Specification
from deltamark.datagen.spark.session import run_tasks
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = Relations((
    relation(
        "customer", "c_", "custkey",
        "custkey:int name:text address:text nationkey:int phone:text acctbal:decimal(15,2) mktsegment:code "
        "comment:text",
        references=(("nationkey", "nation"),), roles=("hot",), changing=("nationkey",),
    ),
    relation(
        "lineitem", "l_", "orderkey linenumber",
        "orderkey:int partkey:int suppkey:int linenumber:int quantity:decimal(15,2) extendedprice:decimal(15,2) "
        "discount:decimal(15,2) tax:decimal(15,2) returnflag:code linestatus:code shipdate:date commitdate:date "
        "receiptdate:date shipinstruct:code shipmode:code comment:text",
        references=(("orderkey", "orders"), ("partkey", "part"), ("suppkey", "supplier")), member_of="orders",
        changing=("quantity", "extendedprice", "discount"),
    ),
    relation(
        "nation", "n_", "nationkey", "nationkey:int name:code regionkey:int comment:text",
        references=(("regionkey", "region"),), roles=("fixed",), changing=("regionkey",),
    ),
    relation(
        "orders", "o_", "orderkey",
        "orderkey:int custkey:int orderstatus:code totalprice:decimal(15,2) orderdate:date orderpriority:code "
        "clerk:text shippriority:int comment:text",
        references=(("custkey", "customer"),), roles=("events",), changing=("orderstatus",),
    ),
    relation(
        "part", "p_", "partkey",
        "partkey:int name:text mfgr:code brand:code type:code size:int container:code retailprice:decimal(15,2) "
        "comment:text",
        roles=("hot",), changing=("brand", "type", "retailprice"), in_turn=True,
    ),
    relation(
        "partsupp", "ps_", "partkey suppkey",
        "partkey:int suppkey:int availqty:int supplycost:decimal(15,2) comment:text",
        references=(("partkey", "part"), ("suppkey", "supplier")),
    ),
    relation("region", "r_", "regionkey", "regionkey:int name:code comment:text", roles=("fixed", "leaving")),
    relation(
        "supplier", "s_", "suppkey",
        "suppkey:int name:text address:text nationkey:int phone:text acctbal:decimal(15,2) comment:text",
        references=(("nationkey", "nation"),), roles=("leaving",),
    ),
))  # fmt: skip
"""The relations in the order of their ranks. Stored names of columns omit the specification's prefixes."""

ROWS: Mapping[str, int] = {
    "customer": 150_000, "lineitem": 6_001_215, "orders": 1_500_000, "part": 200_000, "partsupp": 800_000,
    "supplier": 10_000,
}  # fmt: skip
"""Rows at scale factor 1. The lines of other scale factors deviate by less than one in a hundred."""

FIXED_ROWS: Mapping[str, int] = {"nation": 25, "region": 5}

ORDER_KEYS_PER_ORDER = 4
"""Orders use a quarter of their keys."""

MEAN_LINES_PER_ORDER = 4

KEYED: Mapping[str, str] = {"custkey": "customer", "partkey": "part", "suppkey": "supplier"}
"""The columns whose values go from 1 to the rows of a relation."""


def _days(first: str, last: str) -> tuple[int, int]:
    low, high = (dt.date.fromisoformat(day).toordinal() - dt.date(1970, 1, 1).toordinal() for day in (first, last))
    return low, high


BOUNDS: Mapping[str, tuple[int, int]] = {
    "nationkey": (0, 24), "regionkey": (0, 4), "linenumber": (1, 7), "shippriority": (0, 0), "size": (1, 50),
    "availqty": (1, 9_999),
    "acctbal": (-99_999, 999_999), "quantity": (1_00, 50_00), "discount": (0, 10), "tax": (0, 8),
    "supplycost": (1_00, 1_000_00), "retailprice": (900_00, 2_099_00), "extendedprice": (900_00, 104_950_00),
    "totalprice": (810_00, 793_422_00),
    "orderdate": _days("1992-01-01", "1998-08-02"), "shipdate": _days("1992-01-02", "1998-12-01"),
    "commitdate": _days("1992-01-31", "1998-10-31"), "receiptdate": _days("1992-01-03", "1998-12-31"),
}  # fmt: skip
"""The lowest and highest values of the other columns: numbers, hundredths or days since 1970."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "mktsegment": ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"),
    "returnflag": ("A", "N", "R"),
    "linestatus": ("F", "O"),
    "orderstatus": ("F", "O", "P"),
    "orderpriority": ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"),
    "shipinstruct": ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"),
    "shipmode": ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
    "mfgr": tuple(f"Manufacturer#{number}" for number in range(1, 6)),
    "brand": tuple(f"Brand#{first}{second}" for first, second in product(range(1, 6), repeat=2)),
    "type": tuple(sorted(map(" ".join, product(
        ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
        ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
        ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
    )))),
    "container": tuple(sorted(map(" ".join, product(
        ("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
    )))),
}  # fmt: skip
"""The words of codes, sorted."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "region": ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"),
    "nation": (
        "ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "CHINA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA",
        "INDONESIA", "IRAN", "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "ROMANIA", "RUSSIA",
        "SAUDI ARABIA", "UNITED KINGDOM", "UNITED STATES", "VIETNAM",
    ),
}  # fmt: skip
"""The words of the column `name`, by relation."""


def rows(name: str, sf: Decimal) -> int:
    """Return the number of rows of a relation."""
    return FIXED_ROWS[name] if name in FIXED_ROWS else int(sf * ROWS[name])


def live_rows(name: str, sf: Decimal, workload: str) -> int:
    """Return the number of rows of a relation that a workload keeps live."""
    kind, _, size = workload.partition(":")
    if kind == "window" and name in ("orders", "lineitem"):
        return min(rows(name, sf), int(size) * (MEAN_LINES_PER_ORDER if name == "lineitem" else 1))
    if kind == "slide" and name not in FIXED_ROWS:
        return min(rows(name, sf), int(size))
    return rows(name, sf)


def bounds(column: str, sf: Decimal) -> tuple[int, int]:
    """Return the lowest and highest value of a column of numbers or dates."""
    if column == "orderkey":
        return 1, ORDER_KEYS_PER_ORDER * rows("orders", sf)
    return (1, rows(KEYED[column], sf)) if column in KEYED else BOUNDS[column]


def words(name: str, column: str) -> tuple[str, ...]:
    """Return the sorted words of a column of codes."""
    return NAMES[name] if column == "name" else WORDS[column]


PART_SF = Decimal("0.25")
"""The scale factor of one part. Starting the generator costs as much as generating an eighth of this."""


@dataclass(frozen=True)
class PartTask:
    """A part of every relation, to be generated into the directory `target`."""

    command: tuple[str, ...]
    part: int
    parts: int
    target: Path


@cache
def generator_version() -> str:
    return f"tpchgen-cli {version('tpchgen-cli')}"


def part_count(sf: Decimal, parallelism: int) -> int:
    """Return the number of parts: one for a small scale factor, otherwise a multiple of the parallelism."""
    if sf <= PART_SF:
        return 1
    return parallelism * math.ceil(sf / (PART_SF * parallelism))


def generate(
    spark: SparkSession, command: tuple[str, ...], into: Path, parts: int, report: Callable[[int, int], None]
) -> None:
    """Generate the missing directories of `into`/part-1 to part-`parts`; report the parts done.

    command: tpchgen-cli, or its successor tpcgen-cli, with the format of the files and the scale factor.
    """
    names = [into / f"part-{part}" for part in range(1, parts + 1)]
    for unfinished in into.glob("making-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    tasks = [PartTask(command, part, parts, name) for part, name in enumerate(names, 1) if not name.exists()]
    if tasks:
        run_tasks(spark, run_part, tasks, lambda: report(sum(map(Path.exists, names)), parts))
    report(parts, parts)


def run_part(task: PartTask) -> None:
    """Run the generator into a temporary directory, and rename that to the target."""
    making = task.target.with_name(f"making-{uuid.uuid4().hex}")
    command = [
        *task.command, "-o", str(making), "-p", str(task.parts), "--part", str(task.part), "--num-threads", "1",
        "--quiet", "--compression", "UNCOMPRESSED",
    ]  # fmt: skip
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        message = (process.stderr.strip().splitlines() or ["no message"])[-1]
        shutil.rmtree(making, ignore_errors=True)
        program = Path(task.command[0]).name
        raise DeltamarkError(f"{program} ended with {process.returncode}", message, "make room or give another DATA=")
    try:
        making.rename(task.target)
    except OSError:
        if not task.target.exists():
            raise
        shutil.rmtree(making)  # an earlier attempt at the same task came first


def find_generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if not program:
        raise DeltamarkError("no tpchgen-cli", f"beside {sys.executable} or on the PATH", "run make setup")
    return program


def part_files(directory: Path, name: str) -> list[Path]:
    """Return the Parquet files of a relation in the order of their parts, which is file order."""
    parts = sorted(directory.glob("part-*"), key=lambda path: int(path.name.removeprefix("part-")))
    return [file for part in parts for file in sorted((part / name).glob("*.parquet"))]


class TpchGenerator(Source):
    """The rows of tpchgen-cli."""

    name = "tpch"
    relations = RELATIONS

    def version(self) -> str:
        return generator_version()

    def specification(self, sf: Decimal, workload: str) -> Specification:
        return Specification(
            lambda name: live_rows(name, sf, workload), lambda _, column: bounds(column, sf), words
        )  # fmt: skip

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        session = spark()
        parts = part_count(sf, session.sparkContext.defaultParallelism)
        parquet = making / f"parquet-{parts}"
        parquet.mkdir(parents=True, exist_ok=True)
        generate(session, (find_generator(), "parquet", "-s", str(sf)), parquet, parts, report)
        return Parts(RELATIONS, {name: part_files(parquet, name) for name in RELATIONS})


TPCH = TpchGenerator()
