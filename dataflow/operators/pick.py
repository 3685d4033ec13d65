"""Pick: values of the rows at some places of each group in an order: the first row, the last one, and quantiles.

    sales.pick(by="shop", order=["price"], cheapest=first("day"), middle=median("price"), all=string_agg("item"))

The rows of a group are kept in order. Each picked place has a cursor: the row at the place, and the weight of the rows
before it. A change before a cursor changes this weight. When a time ends, the cursor moves along the order to the row
that is at the place now. So a change costs a search in the order, and one step of a cursor for each unit of weight.

The texts of a group are written one behind another, from the row of a cursor at the first place on. A change of the
group costs both whole texts, which are written before and after a time, and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from deltamark.dataflow.builder.keys import key_ids, key_of
from deltamark.dataflow.builder.program import VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import HEAP_BYTES, HEAP_WORDS, TextCells, numbers_of, store_bytes
from deltamark.dataflow.kernels.core.blocks import Array, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import move, wraps
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.grouped_rows import (
    LONG_TEXT,
    NEGATIVE,
    WIDE_WEIGHT,
    GroupedRowsBlock,
    RowGroup,
    RowRecord,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import remove
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import BTree
from deltamark.dataflow.kernels.text.functions import equal_bytes
from deltamark.dataflow.operators.by_key import Grouped
from deltamark.dataflow.operators.grouped_rows import (
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    stored_columns,
    with_prefixes,
)
from deltamark.dataflow.operators.input import row_count
from deltamark.dataflow.operators.interning import PlanValue
from deltamark.dataflow.operators.node import Emission, JoinReads, Requirement
from deltamark.dataflow.operators.top import Direction
from deltamark.dataflow.plan.term_sql import identifier
from deltamark.dataflow.types import NULL

PlaceKind = Literal["whole", "below", "above", "rest", "texts", "size"]
"""The place of a share s among n rows, from 0 on, and the value that is picked.

whole  the value of row max(ceil(n s), 1) - 1, at which a share of the rows has ended
below  the value of row floor((n - 1) s), from which a quantile is interpolated
above  the value of row ceil((n - 1) s), to which it is interpolated
rest   the fraction of (n - 1) s, times the denominator of s
texts  the address of the texts of all rows, which are not NULL, with a separator between them
size   the length of the texts before it, -1 if there are none
"""

WHOLE, BELOW, ABOVE, REST, TEXTS, SIZE = range(6)
KINDS: tuple[PlaceKind, ...] = PlaceKind.__args__  # type: ignore[attr-defined]

OLD, NEW = range(2)
"""The versions of a group: before and after a time."""

MAX_DENOMINATOR = 10**9
"""The largest denominator of a share: products of two numbers up to it need 60 bits."""


@dataclass(frozen=True)
class Picked(PlanValue):
    """A column: the value of a column in the row at a place, the rest of the place, or the texts of all rows.

    The share is part / whole. separator: between texts.
    """

    name: str
    of: str
    kind: PlaceKind
    part: int
    whole: int
    separator: str = ""

    def __str__(self) -> str:
        if self.kind == "texts":
            return f"texts of {identifier(self.of)} AS {identifier(self.name)}"
        kind = "" if self.kind == "whole" else f" {self.kind}"
        return f"{identifier(self.of)} at {self.part}/{self.whole}{kind} AS {identifier(self.name)}"


@dataclass(frozen=True, eq=False)
class Pick(Grouped):
    """A row for each group, with values of its rows at some places. Ties are ordered by the picked columns."""

    order: tuple[tuple[str, Direction], ...]
    picked: tuple[Picked, ...]

    consolidated: ClassVar[bool] = True

    def description(self, required: Collection[str]) -> str:
        order = self.compared.items()
        places = ", ".join(identifier(name) + " DESC" * (direction == "descending") for name, direction in order)
        groups = f"by {', '.join(map(identifier, self.keys))}" if self.keys else ""
        return f"{groups} in order of {places}: {', '.join(map(str, self.picked))}".strip()

    @property
    def compared(self) -> Mapping[str, Direction]:
        """The columns that order the rows, with their directions: those of the order, then the picked ones."""
        directions: dict[str, Direction] = dict(self.order)
        for each in self.picked:
            directions.setdefault(each.of, "ascending")
        return directions

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, list(dict.fromkeys([*self.compared, *self.keys])))]

    def determines(self, names: frozenset[str]) -> bool:
        return set(self.keys) <= names

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return _pick(streams[0], self)


def _pick(stream: Stream, node: Pick) -> Stream:
    """Append the operator."""
    program, schema, compared = stream.program, node.rows.schema, node.compared
    key = key_of(stream, node.keys, [schema[name] for name in node.keys])
    keys = key_ids(program, key, row_count(node), stream.size)
    descending = [name for name, direction in compared.items() if direction == "descending"]
    ordered, texts = with_prefixes(stream, stored_columns(stream, compared, schema, descending))
    columns = [*ordered, *stored_columns(stream, [name for name in node.keys if name not in compared], schema)]
    picked = [part for each in node.picked for part in _stored_parts(each)]
    arguments = [_argument(stream, node, columns, each.of) for each in picked]
    words, table = program.words, program.table
    count, separators = len(picked), [each.separator.encode() for each in picked]
    heap = program.memory.reserve_unset(HEAP_WORDS) if any(each.kind == "texts" for each in picked) else 0
    groups = grouped_rows(
        PICK, keys, [RowInput(stream, key.cell, columns)],
        order=RowOrder(RowRecord.size_in_words - 1, 1 + len(ordered), [1 + at for at in texts]),
        added=[each.name for each in picked],
        picks=count, kinds=table([KINDS.index(each.kind) for each in picked]),
        parts=table([each.part for each in picked]), wholes=table([each.whole for each in picked]),
        arguments=table(arguments), heap=heap, place=heap, heap_end=heap + HEAP_BYTES,
        separators=table([store_bytes(program, each) for each in separators]), sizes=table(list(map(len, separators))),
        cursors=keys.reserve(program.memory, count * CURSOR_WORDS),
        changed=program.memory.reserve_unset(UNBOUNDED_WORDS), old=words(count), new=words(count),
    )  # fmt: skip
    written = {each.name for each in node.picked if each.kind == "texts"}

    def compute(name: str) -> VectorAddress:
        if name not in written:
            return groups.column(name)
        return numbers_of(program, groups.size, TextCells(groups.column(name), groups.column(_size_of(name))))

    return Stream(program, groups.size, groups.time, groups.diff, compute) if written else groups


def _stored_parts(each: Picked) -> Iterator[Picked]:
    """Yield the words of which a column consists: a text is an address and a length."""
    yield each
    if each.kind == "texts":
        yield replace(each, name=_size_of(each.name), kind="size")


def _size_of(name: str) -> str:
    """Return the name of the column of the lengths of texts, which no schema has."""
    return f"bytes of {name}"


def _argument(stream: Stream, node: Pick, columns: list[StoredColumn], of: str) -> int:
    """Return the place of a column among the stored ones; a descending column is stored a second time."""
    for at, each in enumerate(columns):
        if each.name == of and each.minuend is None:
            return at
    (column,) = stored_columns(stream, [of], node.rows.schema)
    columns.append(StoredColumn("", column.type, column.cell))
    return len(columns) - 1


class Cursor(Block):
    """The row at a picked place of a group."""

    slot: int
    """The slot of its record, or 0 if the group has no rows."""
    passed: int
    """The weight of the rows before it."""


CURSOR_WORDS = Cursor.size_in_words


class PickBlock(GroupedRowsBlock):
    """Rows in order, with cursors at the picked places."""

    order: BTree
    picks: int
    kinds: Array
    """For each picked value the number of its kind in KINDS."""
    parts: Array
    wholes: Array
    """For each picked value the numerator and the denominator of its share."""
    arguments: Array
    """For each picked value the value of a record that it is."""
    cursors: Array
    """For each key id a `Cursor` for each picked value."""
    heap: int
    """The address of the texts of a slice."""
    place: int
    """The address behind the last text."""
    heap_end: int
    separators: Array
    """For each picked value the address of the bytes between its texts."""
    sizes: Array
    """For each picked value the number of these bytes."""
    changed: Array
    """The slots of the changed rows."""
    old: Array
    """The picked values before the time."""
    new: Array
    """The picked values after the time."""


class PickGroup(RowGroup):
    """The rows of a group."""

    weight: int
    """The number of rows, counting multiplicity."""


@inline
def _cursor_at(op: PickBlock, group_id: int, which: int) -> Cursor:
    return Cursor(op.cursors[CURSOR_WORDS * (op.picks * group_id + which) :].address)


@kernel
def pick(op: PickBlock, group_id: int, group: PickGroup) -> int:
    """End a time for a group; return an error, or 0."""
    before = group.weight
    if op.out_size == 0:
        op.place = op.heap
    start = op.place
    if before > 0:
        _read(op, group_id, OLD, op.old, before)
    count = _put_in_order(op, group)
    if count < 0:
        return op.error
    after = group.weight
    if count > 0:
        if after > 0:
            for at in range(op.picks):
                if op.kinds[at] != REST and op.kinds[at] != SIZE:
                    _move(op, group_id, at, count, after)
            _read(op, group_id, NEW, op.new, after)
        equal = before > 0 and after > 0 and _are_equal(op)
        values = record_at(op.rows, op.changed[0]).values
        if before > 0 and not equal:
            _emit(op, values, op.old, -1)
        if after > 0 and not equal:
            _emit(op, values, op.new, 1)
        if equal:
            op.place = start
    _release(op, count)
    if op.error != 0:
        return op.error
    if after == 0:
        for at in range(op.picks):
            cursor = _cursor_at(op, group_id, at)
            cursor.slot = 0
            cursor.passed = 0
        remove(op.keys, hash_map.key_of(op.keys, group_id))
    return 0


@kernel
def _put_in_order(op: PickBlock, group: PickGroup) -> int:
    """Insert the new rows into the order, and add up weights; return the number of changed rows, or -1 for an error."""
    rows, slot, count, changed = op.rows, group.row_chain, 0, op.changed
    group.row_chain = 0
    while slot > 0:
        row = record_at(rows, slot)
        next_touched, old, new = row.next_touched, row.old_weight, row.weight
        if new < 0:
            fail(op, NEGATIVE, 0, slot)
            return -1
        if old == new:
            row.next_touched = 0
            if new == 0:
                release(rows, slot)
        else:
            if wraps(group.weight, new - old) < 0:
                fail(op, WIDE_WEIGHT, 0, slot)
                return -1
            if old == 0:
                btree.insert(op.order, slot)
            group.weight += new - old
            changed[count] = slot
            count += 1
        slot = next_touched
    return count


@kernel
def _release(op: PickBlock, count: int) -> None:
    """Release the changed rows that have gone."""
    for at in range(count):
        slot = op.changed[at]
        row = record_at(op.rows, slot)
        row.next_touched = 0
        if row.weight == 0:
            btree.delete(op.order, slot)
            release(op.rows, slot)


@kernel
def _move(op: PickBlock, group_id: int, which: int, count: int, weight: int) -> None:
    """Move a cursor to its place among the rows after the time. count: the number of changed rows."""
    rows, order, cursor, changed = op.rows, op.order, _cursor_at(op, group_id, which), op.changed
    slot, passed, place = cursor.slot, cursor.passed, _place(op, which, weight)
    if slot == 0:  # all rows are new
        slot = changed[0]
        for at in range(1, count):
            if btree.precedes(order, changed[at], slot):
                slot = changed[at]
    else:
        for at in range(count):
            if btree.precedes(order, changed[at], slot):
                row = record_at(rows, changed[at])
                passed += row.weight - row.old_weight
    here = record_at(rows, slot).weight
    if not passed <= place < passed + here:
        position = btree.seek(order, slot)
        while passed > place:
            position = btree.preceding(order, position)
            here = record_at(rows, btree.slot_at(order, position)).weight
            passed -= here
        while passed + here <= place:
            passed += here
            position = btree.following(order, position)
            here = record_at(rows, btree.slot_at(order, position)).weight
        slot = btree.slot_at(order, position)
    cursor.slot = slot
    cursor.passed = passed


@kernel
def _place(op: PickBlock, which: int, weight: int) -> int:
    """Return the place of a picked value among rows of a weight."""
    kind, part, whole = op.kinds[which], op.parts[which], op.wholes[which]
    steps = weight if kind == WHOLE else weight - 1
    rest = steps % whole * part
    place, is_between = steps // whole * part + rest // whole, rest % whole != 0
    if kind == WHOLE:
        return max(place + is_between, 1) - 1
    return place + is_between if kind == ABOVE else place


@kernel
def _read(op: PickBlock, group_id: int, version: int, values: Array, weight: int) -> None:
    """Read the picked values of a group in a version. weight: that of all its rows."""
    for at in range(op.picks):
        kind = op.kinds[at]
        if kind == REST:
            values[at] = (weight - 1) % op.wholes[at] * op.parts[at] % op.wholes[at]
        elif kind == TEXTS:
            values[at] = op.place
            values[at + 1] = _write_texts(op, group_id, version, at)
        elif kind != SIZE:
            values[at] = record_at(op.rows, _cursor_at(op, group_id, at).slot).values[op.arguments[at]]


@kernel
def _write_texts(op: PickBlock, group_id: int, version: int, which: int) -> int:
    """Write the texts of a group one behind another, behind the last text; return their length, or -1 without any."""
    order, pool, argument, start = op.order, op.order.pool, op.arguments[which], op.place
    separator, size, place, found = op.separators[which], op.sizes[which], op.place, False
    position = btree.seek(order, _cursor_at(op, group_id, which).slot)
    while position != 0:
        record = record_at(op.rows, btree.slot_at(order, position))
        if record.group != group_id:
            break
        is_old, number = version == OLD and record.next_touched != 0, record.values[argument]
        weight = record.old_weight if is_old else record.weight
        if weight > 0 and number != NULL:
            text, length = pool.starts[number], pool.lengths[number]
            if weight > (op.heap_end - place) // max(length + size, 1):
                return -fail(op, LONG_TEXT, 0, btree.slot_at(order, position))
            for _ in range(weight):
                if found and size > 0:
                    move(place, separator, size)
                    place += size
                if length > 0:
                    move(place, text, length)
                    place += length
                found = True
        position = btree.following(order, position)
    op.place = place
    return place - start if found else -1


@kernel
def _are_equal(op: PickBlock) -> bool:
    """Return whether a group has the same values before and after a time."""
    for at in range(op.picks):
        if op.kinds[at] == TEXTS:
            size = op.new[at + 1]
            if size != op.old[at + 1] or (size > 0 and not equal_bytes(op.old[at], op.new[at], size)):
                return False
        elif op.old[at] != op.new[at]:
            return False
    return True


@kernel
def _emit(op: PickBlock, values: Array, picked: Array, diff: int) -> None:
    """Write an update of a group's row to the output. values: those of any row of the group."""
    at, columns = op.out_size, op.rows.columns
    op.out_time[at] = op.open_time
    op.out_diff[at] = diff
    for column in range(columns):
        op.out[column][at] = values[column]
    for each in range(op.picks):
        op.out[columns + each][at] = picked[each]
    op.out_size = at + 1


PICK = group_step(pick)
