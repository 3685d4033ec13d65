"""The kinds of examples, and how one is drawn from a seed and run."""

from __future__ import annotations

import random
import shlex
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from support.random_plans.choices import Choices
from support.reference.errors import PlanError, TooLargeError

from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.errors import DeltamarkError
from fuzz.against_duckdb import as_sql
from fuzz.engines import in_stages, on_one_worker, on_several_workers
from fuzz.example import Example, WrongError
from fuzz.iterated import loop
from fuzz.queries.elsewhere import example_elsewhere
from fuzz.queries.example import query_example
from fuzz.tally import TALLY
from fuzz.together.script import script

FULL = f"at index {UNBOUNDED_WORDS} of a reservation of {UNBOUNDED_WORDS} words"
"""The error of checked kernels when a vector has more rows than they reserve. An example with that many has joins above
joins over the same rows, whose changes cancel each other only in the answer; or joins of which DuckDB makes no rows.
"""


@dataclass(frozen=True)
class Kind:
    draw: Callable[[Choices], Example]
    weight: int
    """The share of this kind among the examples of all kinds."""
    late_fails: bool = True
    """Whether an example that takes long is a failure. One of queries is given up, and counted: it may have joins of
    millions of rows, of which DuckDB makes none where the other side of a join is empty.
    """
    keeps: bool = False
    """Whether a failure has its example, which depends on other things than its seed."""
    words: str = ""
    """The settings of the command that draws such an example."""


KINDS: dict[str, Kind] = {
    "worker": Kind(on_one_worker, 40),
    "workers": Kind(on_several_workers, 30),
    "shards": Kind(in_stages, 6),
    "together": Kind(script, 14),
    "loops": Kind(loop, 10),
    "sql": Kind(as_sql, 6),
    "queries": Kind(query_example, 14, late_fails=False),
}


def fuzz_engine(engine: str) -> None:
    """Let the examples of queries be those of an engine of others."""
    words = f"ENGINE={shlex.quote(engine)} "
    KINDS["queries"] = Kind(partial(example_elsewhere, engine=engine), 14, keeps=True, words=words)


@dataclass(frozen=True)
class Failure:
    """The failure of an example. what: its description, in words that do not depend on the example.

    example: one that cannot be drawn again from its seed.
    """

    kind: str
    seed: int
    what: str
    details: str = ""
    ends_process: bool = False
    example: Example | None = None

    @property
    def command(self) -> str:
        if self.example is not None:
            return "the script that follows, if it is not like others"
        return f"make fuzz {KINDS[self.kind].words}KINDS={self.kind} SEED={self.seed} EXAMPLES=1"


def kind_of(seed: int, names: Sequence[str]) -> str:
    """Choose the kind of the example of a seed."""
    weights = [KINDS[name].weight for name in names]
    return random.Random(~seed).choices(names, weights)[0] if len(names) > 1 else names[0]


def run(kind: str, seed: int, choices: Choices) -> Failure | None:
    """Draw an example and run it; return its failure."""
    return run_drawn(kind, seed, lambda: KINDS[kind].draw(choices))


def run_drawn(kind: str, seed: int, draw: Callable[[], Example]) -> Failure | None:
    example = None
    try:
        example = draw()
        example.run()
    except TooLargeError:
        TALLY["unfit: more values of a window than the reference computes"] += 1
        return None
    except Exception as error:  # noqa: BLE001 (any error is a failure)
        if kind == "together" and isinstance(error, PlanError):
            TALLY["unfit: a plan that fails, beside others"] += 1
            return None
        what, details = _described(error)
        if FULL in details:
            TALLY["unfit: more rows in a join than checked kernels have memory for"] += 1
            return None
        return Failure(kind, seed, what, details, example=example if KINDS[kind].keeps else None)
    TALLY.update(f"{kind}: {trait}" for trait in example.traits())
    return None


def _described(error: Exception) -> tuple[str, str]:
    if isinstance(error, WrongError):
        return error.what, error.details
    what = error.cause if isinstance(error, DeltamarkError) else type(error).__name__
    return what, "".join(traceback.format_exception(error, limit=-8))
