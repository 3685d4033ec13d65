"""Window: values of each row that depend on the rows before it in its group: places, ranks, and running aggregates.

    sales.window(by="shop", order=["day"], place=row_number(), sold=running_sum("price"))

The rows of a group are kept in order. Each has the state after it: the number of rows, the sums, and so on up to it.
When a time ends, two states are carried through the order from the first changed row on: one of the rows before the
time, one of the rows after it. A row whose values differ is emitted. Where both states are equal, nothing changes until
the next changed row, to which the operator jumps. So a time costs a search for each changed row, and a step for each
row whose state changes.

With a limit only the rows up to a place are emitted. A state behind the last such row is not kept up to date, because
no change needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import too_wide, wraps
from deltamark.dataflow.kernels.groups.grouped_rows import (
    MANY_COPIES,
    OUT_OF_BOUNDS,
    RowRecord,
    fail,
    group_step,
    record_at,
)
from deltamark.dataflow.kernels.groups.ordered_rows import (
    MAX_COPIES,
    OrderedGroup,
    OrderedRowsBlock,
    are_peers,
    emit_with,
    put_in_order,
    settle_rows,
    state_of,
)
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows
from deltamark.dataflow.operators.in_order import InOrder, RowFunction, StoredOrder
from deltamark.dataflow.plan.term_sql import identifier
from deltamark.dataflow.types import NULL

State = Literal["rank", "row_number", "dense_rank", "count", "sum", "smallest", "largest"]
"""The states that are carried from row to row, in the order in which a row changes them."""

RANK, ROW_NUMBER, DENSE_RANK, COUNT, SUM, SMALLEST, LARGEST = range(7)
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]

TIES = ("row_number", "count", "sum", "smallest", "largest")
"""The states that may differ among rows that are equal in order."""


@dataclass(frozen=True)
class WindowFunction(RowFunction):
    """A column: a state after the row, or after the last row that is equal to it in order (`with_peers`).

    of: the column that is counted, summed or compared; a sum of no values is NULL.
    """

    state: State
    of: str = ""
    with_peers: bool = False

    def __str__(self) -> str:
        of = f"({identifier(self.of) if self.of else ''})"
        return f"{self.state.replace('_', ' ')}{of}{' with peers' * self.with_peers} AS {identifier(self.name)}"

    @property
    def reads(self) -> str:
        return self.of

    @property
    def is_place(self) -> bool:
        """Whether it is a place or a rank, which grows along the order."""
        return self.state in ("row_number", "rank", "dense_rank") and not self.with_peers

    @property
    def orders_ties(self) -> bool:
        return self.state in TIES and not self.with_peers


@dataclass(frozen=True, eq=False)
class Window(InOrder):
    """The rows with functions of the rows before them in their group.

    limit: if not 0, the largest value of the first function, which is a place or a rank.
    """

    functions: tuple[WindowFunction, ...]
    limit: int = 0

    def description(self, required: Collection[str]) -> str:
        limit = f"{self.functions[0].name} <= {self.limit}" if self.limit else ""
        return "; ".join(filter(None, [super().description(required), limit]))

    def determines(self, names: frozenset[str]) -> bool:
        places = {each.name for each in self.functions if each.state == "row_number"}
        is_first = self.limit == 1 and self.functions[0].name in places
        return ({*self.keys} <= names and (is_first or bool(places & names))) or super().determines(names)

    def append(self, stored: StoredOrder) -> Stream:
        program = stored.stream.program
        states = dict.fromkeys(sorted(_states(self), key=lambda each: STATES.index(each[0])))
        arguments = [stored.argument(self, of) for _, of in states]
        places = {state: at for at, state in enumerate(states)}
        read = [places[each.state, each.of] for each in self.functions]
        first = self.functions[0]
        limited: tuple[State, str] = next(iter(states))
        if self.limit:
            limited = ("dense_rank" if first.state == "dense_rank" else "row_number"), ""
        reads_peers = any(each.with_peers for each in self.functions)
        words, table = program.words, program.table
        return grouped_rows(
            WINDOW, stored.keys, [RowInput(stored.stream, stored.key, stored.columns, len(states))],
            order=stored.order, added=[each.name for each in self.functions], **stored.fields(self),
            states=len(states), kinds=table([STATES.index(state) for state, _ in states]), arguments=table(arguments),
            read=table(read), at_peers=table([int(each.with_peers) for each in self.functions]),
            by_copy=int(any(each.orders_ties for each in self.functions)), reads_peers=int(reads_peers),
            limit=self.limit, limit_state=places[limited],
            limits_peers=int(reads_peers or first.state != "row_number"),
            old=words(len(states)), new=words(len(states)), old_end=words(len(states)), new_end=words(len(states)),
        )  # fmt: skip


def _states(node: Window) -> Iterator[tuple[State, str]]:
    """Yield the states that the functions need, with their columns: a rank is one more than a number of rows."""
    for each in node.functions:
        yield each.state, each.of
        if each.state == "rank":
            yield "row_number", ""


class WindowBlock(OrderedRowsBlock):
    """Rows in order, with the states after them."""

    states: int
    kinds: Array
    """The number of each state in STATES."""
    arguments: Array
    """For each state the value of a record that it reads."""
    read: Array
    """For each function its state."""
    at_peers: Array
    """For each function whether it reads the state after the last peer."""
    reads_peers: int
    """Whether a function reads the state after the last peer."""
    limit: int
    """The largest value of the first function, or 0."""
    limit_state: int
    """The state that has reached the limit at the last row that is emitted."""
    limits_peers: int
    """Whether the peers of the last row are emitted, too."""
    old: Array
    """The states before the time, as of the place that the walk has reached."""
    new: Array
    """The states after the time."""
    old_end: Array
    """The states after the last peer."""
    new_end: Array
    old_last: int = 0
    """The last row that the walk has added to `old`, or 0."""
    new_last: int = 0


@kernel
def window(op: WindowBlock, group_id: int, group: OrderedGroup) -> int:
    """End a time for a group; return an error, or 0."""
    count, at = put_in_order(op, group), 0
    if count < 0:
        return op.error
    while at < count:
        if group.last != 0 and _is_behind(op, group.last, op.changed[at]):
            break
        at = _walk(op, group_id, group, at, count)
        if at < 0:
            return op.error
    settle_rows(op, group_id, group, count)
    return 0


@inline
def _is_behind(op: WindowBlock, last: int, slot: int) -> bool:
    """Return whether a row lies behind the last one that a limit needs."""
    return btree.precedes(op.order, last, slot) and not (op.limits_peers != 0 and are_peers(op, last, slot))


@kernel
def _walk(op: WindowBlock, group_id: int, group: OrderedGroup, at: int, count: int) -> int:
    """Carry the states on from a changed row until they are equal; return the next changed row, or -1 for an error."""
    rows, order, peers, first = op.rows, op.order, op.reads_peers != 0, at
    position = _start(op, group_id, op.changed[at])
    while position != 0:
        slot = btree.slot_at(order, position)
        row = record_at(rows, slot)
        if row.group != group_id:
            break
        is_changed = row.next_touched != 0
        old_goes_on, new_goes_on = are_peers(op, op.old_last, slot), are_peers(op, op.new_last, slot)
        begins = not (old_goes_on or new_goes_on)
        if op.limit != 0 and (begins or op.limits_peers == 0) and _is_full(op):
            group.last = op.new_last
            return count
        is_settled = at > first and (begins or (not peers and old_goes_on == new_goes_on))
        if is_settled and not is_changed and _are_equal(op):
            return at
        if begins and peers:
            _look_ahead(op, position)
        if not _pass(op, slot, row, row.old_weight if is_changed else row.weight):
            return -1
        at += is_changed
        position = btree.following(order, position)
    group.last = 0
    return at


@kernel
def _start(op: WindowBlock, group_id: int, slot: int) -> int:
    """Return the position at which a walk begins, with the states before it: at a row, or at the first of its peers."""
    order, rows = op.order, op.rows
    position = btree.seek(order, slot)
    before = btree.preceding(order, position)
    while op.reads_peers != 0 and before != 0 and are_peers(op, btree.slot_at(order, before), slot):
        position = before
        before = btree.preceding(order, position)
    last = btree.slot_at(order, before) if before != 0 else 0
    if last != 0 and record_at(rows, last).group != group_id:
        last = 0
    op.old_last = last
    op.new_last = last
    for state in range(op.states):
        kind = op.kinds[state]
        value = NULL if kind >= SUM else 0
        if last != 0:
            value = state_of(op, last)[state]
        op.old[state] = value
        op.new[state] = value
    return position


@kernel
def _are_equal(op: WindowBlock) -> bool:
    """Return whether the states before the time and after it are equal."""
    equal = True
    for state in range(op.states):
        equal &= op.old[state] == op.new[state]
    return equal


@inline
def _is_full(op: WindowBlock) -> bool:
    """Return whether the rows before this place have reached the limit, before the time and after it."""
    return min(op.old[op.limit_state], op.new[op.limit_state]) >= op.limit


@kernel
def _look_ahead(op: WindowBlock, position: int) -> None:
    """Compute the states after the peers that begin at a position."""
    order, rows, first = op.order, op.rows, btree.slot_at(op.order, position)
    old_last, new_last = op.old_last, op.new_last
    for state in range(op.states):
        op.old_end[state] = op.old[state]
        op.new_end[state] = op.new[state]
    while position != 0:
        slot = btree.slot_at(order, position)
        if not are_peers(op, first, slot):
            break
        row = record_at(rows, slot)
        old = row.old_weight if row.next_touched != 0 else row.weight
        _add(op, op.old_end, old_last, slot, old)
        _add(op, op.new_end, new_last, slot, row.weight)
        old_last = slot if old != 0 else old_last
        new_last = slot if row.weight != 0 else new_last
        position = btree.following(order, position)


@kernel
def _add(op: WindowBlock, states: Array, last: int, slot: int, weight: int) -> bool:
    """Add copies of a row to states. last: the row before it. Return whether the states need no more than 64 bits."""
    if weight == 0:
        return True
    begins, values, fits = not are_peers(op, last, slot), record_at(op.rows, slot).values, True
    for state in range(op.states):
        kind, value = op.kinds[state], values[op.arguments[state]]
        now = states[state]
        if kind == RANK:
            now = states[state + 1] + 1 if begins else now
        elif kind == ROW_NUMBER:
            fits &= wraps(now, weight) >= 0
            now += weight
        elif kind == DENSE_RANK:
            now += begins
        elif value != NULL:
            if kind == COUNT:
                fits &= wraps(now, weight) >= 0
                now += weight
            elif kind == SUM:
                total = value * weight
                fits &= too_wide(value, weight) == 0
                if now != NULL:
                    fits &= wraps(now, total) >= 0
                    total += now
                now = total
            elif now == NULL:
                now = value
            else:
                now = min(now, value) if kind == SMALLEST else max(now, value)
        states[state] = now
    return fits


@kernel
def _pass(op: WindowBlock, slot: int, row: RowRecord, old: int) -> bool:
    """Add a row to the states, and emit how its values change; return whether they are in bounds."""
    new = row.weight
    fits = _pass_copies(op, slot, row, old) if op.by_copy != 0 else _step(op, slot, row, old, new)
    if new != 0:
        state = state_of(op, slot)
        for at in range(op.states):
            state[at] = op.new[at]
    return fits


@kernel
def _pass_copies(op: WindowBlock, slot: int, row: RowRecord, old: int) -> bool:
    """Add the copies of a row to the states one by one; those behind a limit at once: their values are not needed."""
    new, fits, has_limit = row.weight, True, op.limit != 0 and op.limits_peers == 0
    if not has_limit and max(old, new) > MAX_COPIES:
        fail(op, MANY_COPIES, 0, slot)
        return False
    for copy in range(max(old, new)):
        old_is_done = copy >= old or op.old[op.limit_state] >= op.limit
        new_is_done = copy >= new or op.new[op.limit_state] >= op.limit
        if has_limit and old_is_done and new_is_done:
            _add(op, op.old, op.old_last, slot, max(old - copy, 0))
            _add(op, op.new, op.new_last, slot, max(new - copy, 0))
            break
        fits &= _step(op, slot, row, int(copy < old), int(copy < new))
    return fits


@kernel
def _step(op: WindowBlock, slot: int, row: RowRecord, old: int, new: int) -> bool:
    """Add copies of a row to the states, and emit how their values change; return whether they are in bounds."""
    _add(op, op.old, op.old_last, slot, old)
    fits = _add(op, op.new, op.new_last, slot, new)
    op.old_last = slot if old != 0 else op.old_last
    op.new_last = slot if new != 0 else op.new_last
    equal = True
    for function in range(op.functions):
        state, at_peers = op.read[function], op.at_peers[function] != 0
        before = op.old_end[state] if at_peers else op.old[state]
        after = op.new_end[state] if at_peers else op.new[state]
        op.old_out[function] = before
        op.new_out[function] = after
        equal &= before == after
        if after != NULL:
            fits &= op.bounds[2 * function] <= after <= op.bounds[2 * function + 1]
    if new != 0 and not fits:
        fail(op, OUT_OF_BOUNDS, 0, slot)
        return False
    if equal:
        _emit(op, row.values, op.new_out, new - old)
    else:
        _emit(op, row.values, op.old_out, -old)
        _emit(op, row.values, op.new_out, new)
    return True


@inline
def _emit(op: WindowBlock, values: Array, functions: Array, diff: int) -> None:
    """Write an update of a row with its functions to the output, unless the limit leaves it out."""
    if op.limit == 0 or functions[0] <= op.limit:
        emit_with(op, values, functions, diff)


WINDOW = group_step(window)
