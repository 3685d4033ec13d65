"""Profiles: the time and the emitted changes of each operator, measured by calling the operators one by one.

The interpreter itself measures nothing, so that a normal run pays nothing. A call from Python costs a microsecond or
two, which the time of an operator includes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from deltamark.dataflow.builder.program import Op, ProgramPart, Schedule
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.explain import Measurement
from deltamark.dataflow.kernels.loops.iterate import ITERATE, IterateBlock


class Profile:
    """Runs a program one operator after another, each over a whole feed, and measures them by their parts."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled, self._program = compiled, compiled.program
        self._nanoseconds: Counter[ProgramPart] = Counter()
        self._changes: Counter[ProgramPart] = Counter()
        self._divided: Schedule | None = None
        self._steps: list[tuple[ProgramPart, Schedule]] = []

    def run(self, schedule: Schedule, start: int, wait: Callable[[], None]) -> None:
        """Run a schedule as `Program.run` does. A feed must be one slice."""
        if schedule is not self._divided:
            self._divide(schedule)
        self._program.run(self._slicing, start, wait)
        for part, step in self._steps:
            started = time.perf_counter_ns()
            self._program.run(step, 0, wait)
            self._nanoseconds[part] += time.perf_counter_ns() - started
        for each in self._compiled.node_parts:
            if each.rows_cell:
                self._changes[each] += self._program.address(each.rows_cell)

    def measurements(self) -> dict[ProgramPart, Measurement]:
        """Return what was measured so far. The operators inside a loop count as one, and emit an unknown number."""
        counted = [each for each in self._compiled.node_parts if each.rows_cell]
        return {each: Measurement(self._changes[each], self._nanoseconds[each] / 1e9) for each in counted}

    def _divide(self, schedule: Schedule) -> None:
        """Make a schedule that only takes the next slice, and one for each operator."""
        for _, step in self._steps:
            self._program.memory.release(step.block)
        self._slicing = self._program.schedule([each.block for each in self._compiled.inputs.values()], [])
        remaining = list(schedule.ops)
        self._steps = []
        while remaining:
            size = _size_of_step(remaining[0])
            self._steps.append((remaining[0].part, self._program.schedule([], remaining[:size])))
            del remaining[:size]
        self._divided = schedule


def _size_of_step(op: Op) -> int:
    """Return the number of operators that must run together: a loop with its body, or one."""
    return 1 + IterateBlock(op.block).length if op.step is ITERATE else 1
