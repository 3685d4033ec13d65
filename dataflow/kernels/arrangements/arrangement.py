"""Arrangements: rows by key, shared by every operator that joins on that key.

A row lies in a slot, and the slots of a key form a list. As long as no row of a list was retracted the newest row is
the first, so an insertion touches no other row. A retraction searches the list of its key; from then on the list has
the oldest row first, so rows that leave in the order of their arrival are found at once. Once searches have passed many
other rows, no row is searched for any more: see `debts`.

The updates of a slice are added before the operators that read them run, and settled after all of them. Between the
two, readers need the time of an update. `kind` says how a slice was added:

ROWS         every update is a row, whose weight is its diff: update i lies in slot `mark + i`
UNITS        an insertion is a row. A retraction takes a row that is equal, the oldest, which remains in its list: it is
             visible before the time of the retraction. A retraction that finds no row of weight 1 is pending or a debt.
PENDING      all updates are pending, update i in slot `mark + i`

A key may change at most times of a slice, as a total does that is the only row of its key. Then most rows of its list
were taken, and readers skip them: where many successive rows are passed, they note the row behind them. Rows of the
slice are in order of time in a list that has the oldest row first, so readers stop at the first row of a later time,
unless the slice has new debts.

Pending updates are in lists of their own, the newest first. Settling cancels them against rows and makes rows of the
rest, and removes the rows that were taken. `slots` says where a slice lies, and what becomes of the slots of rows that
have left.

While a past time is held, later updates are not settled: those of each slice are appended to those of the slice before,
with their times, diffs and keys in a log, and readers see all of them. All are pending, and settled up to the oldest
held time as if they were the updates of one slice.

The weight of a row is 1 unless `weighted` is set. A retraction that precedes its insertion within a logical time is a
row of negative weight until the time ends; one that is left then is an error, unless the arrangement has debts.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Array32, Arrays, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import inline
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap

ROWS, UNITS, PENDING = range(3)
"""Kinds of slices."""

DEAD = -(1 << 31)
"""The value of `next` for a slot that has neither a row nor an update."""

LAST_DEBTOR = -1
"""The link of the last key with debts."""


class ArrangementBlock(Operator):
    """The rows of a collection by key, and the updates of the current slice."""

    size: Cell
    time: Vector
    diff: Vector
    key: Vector
    keys: KeyMap
    frontier: Cell
    lists: Array32
    """A pair for each key id, the first and the last slot of its list, plus 1. The last is 0 if the newest row is the
    first."""
    ordered: int = 0
    """Whether new rows follow the last one of a list that has one, and begin such lists."""
    pending: Array32
    """For each key id the newest pending update: its slot, plus 1."""
    has_pending: int = 0
    present: Array = NONE
    """A bit for each key of the range, set once it has had rows; none unless few keys have rows."""
    next: Array32
    """For each slot the next one of its list, plus 1; inverted if the row was taken."""
    taken_by: Array32
    """For each row that was taken, the number of the update."""
    skips: Array
    """For a row at which a pass began to skip taken rows, the number of the pass and the link of the next row."""
    passes: int = 0
    """The number of passes so far: an insertion is one, and so is a side of a join that reads a slice."""
    has_new_debts: int = 0
    """Whether retractions of the slice are debts: these follow insertions of later times in their lists."""
    mark: int = 0
    """The first slot of the updates that are not settled."""
    limit: int = 0
    """The first slot behind them, which is the next one to be used."""
    room: int = 0
    """The end of the unused slots that begin at `limit`."""
    top: int = 0
    """The end of all slots that were ever used."""
    used: Array32
    """For each block of slots, how many are in use."""
    unused: Array32
    """A stack of blocks of which no slot is in use."""
    unused_count: int = 0
    dead: int = 0
    """The number of dead slots."""
    live: int = 0
    """The number of rows."""
    weighted: int = 0
    weight: Array
    negative_rows: int = 0
    negative_time: int = 0
    negative_slot: int = 0
    """The last row of negative weight, and the time since which there is one."""
    kind: int = ROWS
    retractions: int = 0
    """The number of retractions of the slice, if it is one of UNITS."""
    scratch: Array
    """The numbers of these retractions; a link for each slot while rows move."""
    ids: Array
    """For each update of the slice the id of its key."""
    places: Array32
    """The slot of each update of the slice: that of the row it takes, or its own."""
    numbers: Array32
    """The number of the update in each slot from `mark` on."""
    newest: Array
    """The rows of the slice by their values: the number of the pass and the slot of the newest of equal rows."""
    newest_mask: int = 0
    """The number of entries, less one."""
    older: Array32
    """For each of these rows the slot of the equal row before it, plus 1. For a debt or a pending retraction of the
    slice: the number of those of its key up to it."""
    known: int = 0
    """The number of insertions of the slice that these rows have."""
    columns: int
    wide: int
    """The number of columns whose values take 8 bytes, which come first; those of the others take 4."""
    inputs: Vectors
    stored: Arrays
    passed: int = 0
    """The rows that searches have passed, less those that a debt would have cost as much as."""
    has_debts: int = 0
    """Whether retractions are rows of negative weight until the list of their key is consolidated."""
    debts: Array32
    """A pair for each key id: the number of retractions since then, less those that the length of its list allows, and
    the link to the next key with debts."""
    debtors: int = LAST_DEBTOR
    """The first key with debts: its id, plus 1. A key stays linked until all lists with debts are consolidated."""
    all_debts: int = 0
    """The number of rows of negative weight, if the arrangement has debts."""
    all_weight: int = 0
    """The sum of all weights, if the arrangement has debts."""
    unpaid: int = 0
    """If there are debts: the end of the last time with updates, until the debts are checked at that end."""
    visible_time: Vector
    visible_diff: Vector
    """The times and diffs of all updates that are not settled; those of the slice begin at number `first`."""
    first: int = 0
    log_time: Array = NONE
    log_diff: Array = NONE
    log_key: Array = NONE
    """The updates that are kept rather than settled, while a past time is held."""


@inline
def slot_of(op: ArrangementBlock, update: int) -> int:
    """Return the slot with the row of an update of the slice."""
    return op.places[update] if op.kind == UNITS else op.mark + op.first + update


@inline
def number_of(op: ArrangementBlock, slot: int) -> int:
    """Return the number of the update in a slot between `mark` and `limit`."""
    return op.numbers[slot - op.mark] if op.kind == UNITS else slot - op.mark


@inline
def has_rows(op: ArrangementBlock, key_id: int) -> bool:
    """Return whether a key has rows or pending updates."""
    return op.lists[2 * key_id] != 0 or (op.has_pending != 0 and op.pending[key_id] != 0)
