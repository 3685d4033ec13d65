"""Steps: the kernels that the interpreter runs, each declared beside its kernel.

    CONSOLIDATE = step(consolidate, idle=("size", "held", "out_size"), grow=_grow, ends_times=True)

`program.add(CONSOLIDATE, size=...)` appends an operator that runs the kernel over a block, whose class is in the
annotation of the kernel. The interpreter calls the kernel by the address of its compiled code, so a process loads or
compiles the kernels of its programs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from deltamark.dataflow.kernels.core.blocks import Array, Block, Operator, SizedOperator, kernel_type
from deltamark.dataflow.kernels.core.dispatcher import Kernel, code_of
from deltamark.dataflow.kernels.core.memory import Memory

Grow = Callable[[Memory, Any], object]
"""The function that enlarges the tables of a block after its kernel has returned NEEDS_ROOM."""

Idle = tuple[str, ...] | Callable[[Any], tuple[int, ...]]
"""The fields of a block that are all 0 while an operator is idle, or the function that returns their addresses."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """A kernel that the interpreter runs.

    kernel: returns a status, or nothing; name: that of the kernel in errors; field: the field of the block that the
    kernel takes instead of the block; idle: empty if the operator must run in every slice; ends_times: whether it emits
    when a time ends.
    """

    kernel: Kernel
    name: str
    block: type[Operator]
    field: str
    idle: Idle
    grow: Grow | None
    ends_times: bool

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that are compiled for the step."""
        return (self.kernel,)

    def call(self, address: int) -> tuple[int, int]:
        """Return the address of the kernel's code, and of the block that it takes, given the block of the operator."""
        taken = getattr(self.block(address), self.field).address if self.field else address
        return code(self.kernel), taken

    def idle_words(self, address: int) -> tuple[int, ...]:
        """Return the addresses of words that are all 0 while the operator of a block is idle."""
        block = self.block(address)
        return words_of(block, *self.idle) if isinstance(self.idle, tuple) else self.idle(block)

    def make_room(self, memory: Memory, address: int) -> None:
        """Enlarge the tables because of which the operator of a block has stopped."""
        assert self.grow is not None
        self.grow(memory, self.block(address))


def step(
    kernel: Kernel,
    *,
    name: str = "",
    field_of: tuple[type[Operator], str] | None = None,
    idle: Idle | None = None,
    grow: Grow | None = None,
    ends_times: bool = False,
) -> Step:
    """Declare a step. field_of: a block, and the field of it that the kernel takes; by default it takes its block.

    idle: by default the size of a block that does nothing without rows; of other blocks nothing.
    """
    block, field = field_of or (arguments(kernel)[0], "")
    if idle is None:
        idle = ("size",) if issubclass(block, SizedOperator) else ()
    return Step(
        kernel=kernel, name=name or kernel.py_func.__qualname__, block=block, field=field, idle=idle, grow=grow,
        ends_times=ends_times,
    )  # fmt: skip


def arguments(kernel: Kernel) -> list[Any]:
    """Return the classes of the arguments of a kernel."""
    return [hint for name, hint in get_type_hints(kernel.py_func).items() if name != "return"]


@cache
def code(kernel: Kernel) -> int:
    """Return the address of the code of a kernel of a step, which is loaded or compiled."""
    return code_of(kernel, *map(kernel_type, arguments(kernel)))


def words_of(block: Block, *names: str) -> tuple[int, ...]:
    """Return the address of the word of each field: of the cell that the field refers to, or of the field itself."""
    fields = type(block).fields
    return tuple(
        getattr(block.as_words, name) if fields[name].through_cell else block.address + fields[name].offset
        for name in names
    )


def doubled(slots: int, entries: int) -> int:
    """Double a number of slots until entries fill at most half of them."""
    while slots < 2 * entries:
        slots *= 2
    return slots


def move_table(memory: Memory, old: Array, words: int, move: Callable[[Array], object]) -> None:
    """Replace a table by a larger one, to which its entries are moved."""
    address, new = old.address, memory.reserve_whole(words, words)
    move(Array(new))
    memory.replace(address, new)
