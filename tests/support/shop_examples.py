"""The examples over the shop, as modules, and the files that they read."""

from __future__ import annotations

import importlib.util
import sys

from support.paths import ROOT


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def shop_files(folder, orders):
    """Write the files and the queries of a small shop into a folder."""
    example("make_shop").make(folder, orders)
    for each in (ROOT / "examples" / "shop").glob("*.sql"):
        (folder / each.name).write_text(each.read_text())
    return folder
