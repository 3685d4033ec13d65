"""The command that installs the packages of a benchmark."""

from __future__ import annotations

from argparse import Namespace

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_benchmark
from deltamark.harness.console.console import say


@command("packages", add_benchmark)
def install_packages(args: Namespace) -> int:
    """Install the packages that a benchmark needs, such as a generator and texts, in a folder of their own.

    The folder is .benchmarks/NAME. The environment of this project does not change.

    Example: make packages BENCHMARK=tpcds
    """
    home = benchmark(args.benchmark)
    if home.texts is None:
        raise DeltamarkError("a benchmark without packages", home.name, "it is ready")
    home.texts.packages.install()
    say(f"{home.name} is ready with {home.texts.packages.listed}: make bench BENCHMARK={args.benchmark}")
    return 0
