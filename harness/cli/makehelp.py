"""The help of the Makefile: the comments of its targets, and the first sentence of each command's help.

It needs no installed package, because make prints it before the environment exists.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from deltamark.harness.cli.commands import overview


def help_text(makefile: str) -> str:
    """Return the leading comments, and a line for each target that has a comment after ##."""
    head = [line.removeprefix("# ").removeprefix("#") for line in makefile.splitlines() if line.startswith("#")]
    targets = re.findall(r"^([\w-]+):.*?## (.*)$", makefile, re.MULTILINE)
    width = max(len(name) for name, _ in targets)
    return "\n".join([*head, "", overview(), "Targets:", *(f"  {name:<{width}}  {text}" for name, text in targets)])


if __name__ == "__main__":
    print(help_text(Path(sys.argv[1]).read_text(encoding="utf-8")))
