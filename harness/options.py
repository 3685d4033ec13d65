"""Settings that several commands share."""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

from datagen.make import Wanted
from datagen.schema import scale_factor


def add_data(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sf", type=scale_factor, default=Decimal("0.01"), help="scale factor, from 0.001 up (default 0.01)")
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="where the data lies (default data)")
    add("--master", default="local[*]", metavar="URL", help="Spark master (default local[*])")


def wanted(chosen: argparse.Namespace) -> Wanted:
    return Wanted(chosen.data, chosen.sf, chosen.master)
