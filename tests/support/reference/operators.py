"""The meaning of each operator: its rows at a time, computed from the rows of its inputs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil, floor, prod

from support.reference.errors import (
    LongTextError,
    ManyCopiesError,
    NegativeError,
    PlanError,
    SeveralRowsError,
    TooLargeError,
    TwoLimitsError,
    WideSumError,
    raise_one,
)
from support.reference.rows import Row, Rows, consolidated, named, picked
from support.reference.terms import double_of, evaluate, ordered

from deltamark.dataflow.builder.texts import HEAP_BYTES
from deltamark.dataflow.kernels.groups.ordered_rows import MAX_COPIES
from deltamark.dataflow.kernels.hashing.mixing import GOLDEN
from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.at_most_one import AtMostOne
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.frames import Bound, FrameFunction, Frames
from deltamark.dataflow.operators.in_order import InOrder
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.operators.pick import Pick
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.operators.sample import SALT, Sample
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.operators.top import TopK
from deltamark.dataflow.operators.window import Window, WindowFunction
from deltamark.dataflow.plan.terms import OF_SAMPLES, ROOTS, ExactMoment, Term
from deltamark.dataflow.types import LARGEST, NULL, stored_double

MOST_STEPS = 1_000_000
"""The rows that the reference reads for the values of a window at one time: about a second. Not tuned."""


def state(rows: Rows, time: int) -> Rows:
    """Return the rows of a state; raise an error if one has a negative weight."""
    raise_one(negatives(rows, time))
    return rows


def negatives(rows: Rows, time: int) -> Iterator[NegativeError]:
    return (NegativeError(row, time) for row, diff in rows.items() if diff < 0)


def grouped(node: Node, rows: Rows, names: Iterable[str]) -> dict[Row, Rows]:
    groups: dict[Row, Rows] = defaultdict(dict)
    for row, diff in rows.items():
        groups[picked(node, row, names)][row] = diff
    return groups


def where(node: Filter, _: int, rows: Rows) -> Rows:
    return {row: diff for row, diff in rows.items() if satisfies(node, row)}


@lru_cache(maxsize=1 << 18)
def satisfies(node: Filter, row: Row) -> bool:
    """Return whether a row satisfies the condition; most rows are asked for at several times."""
    return bool(evaluate(node.condition, named(node.rows, row)))


def select(node: Project, _: int, rows: Rows) -> Rows:
    return consolidated((selected(node, row), diff) for row, diff in rows.items())


@lru_cache(maxsize=1 << 18)
def selected(node: Project, row: Row) -> Row:
    """Return the values of the columns for a row, which most rows have at several times."""
    values = named(node.rows, row)
    return tuple(evaluate(term, values) for _, term in node.columns)


def concat(_: Node, __: int, *inputs: Rows) -> Rows:
    return consolidated(change for rows in inputs for change in rows.items())


def negate(_: Node, __: int, rows: Rows) -> Rows:
    return {row: -diff for row, diff in rows.items()}


def aggregate(node: Aggregate, time: int, rows: Rows) -> Rows:
    found: Rows = {}
    errors: list[PlanError] = []
    for key, members in grouped(node.rows, rows, node.keys).items():
        number = sum(members.values())
        if number < 0:
            errors.append(NegativeError(key, time))
        elif number:
            row = *key, *(number if each.term is None else weighed(node.rows, members, each.term) for each in node.sums)
            if any(abs(value) > LARGEST for value in row[len(key) :]):
                errors.append(WideSumError(row, time))
            found[row] = 1
    raise_one(errors)
    return found


def weighed(node: Node, rows: Rows, term: Term) -> int:
    if isinstance(term, ExactMoment):
        given = [([evaluate(each, named(node, row)) for each in term.numbers], diff) for row, diff in rows.items()]
        known = [(list(map(double_of, values)), diff) for values, diff in given if NULL not in values]
        return exact_moment(term, known)
    if term.type.kind == "double":
        return double_sum([(double_of(evaluate(term, named(node, row))), diff) for row, diff in rows.items()])
    return sum(diff * evaluate(term, named(node, row)) for row, diff in rows.items())


def double_sum(weighted: Iterable[tuple[float, int]]) -> int:
    """Return the stored double nearest to the exact sum of doubles with weights."""
    counts: Counter[float] = Counter()
    for value, diff in weighted:
        counts["nan" if math.isnan(value) else value] += diff
    present = {value for value, count in counts.items() if count}
    if "nan" in present or {math.inf, -math.inf} <= present:
        return stored_double(math.nan)
    if not present.isdisjoint({math.inf, -math.inf}):
        return stored_double(math.inf if math.inf in present else -math.inf)
    total = sum((Fraction(value) * counts[value] for value in present), Fraction(0))
    try:
        return stored_double(float(total))
    except OverflowError:
        return stored_double(math.inf if total > 0 else -math.inf)


def exact_moment(term: ExactMoment, weighted: list[tuple[list[float], int]]) -> int:
    """Return a moment of at least one row, rounded once and then as it is divided; without rows, 0."""
    rows, less = sum(diff for _, diff in weighted), term.function in OF_SAMPLES
    if rows <= less:
        return 0
    odd = sum(diff for values, diff in weighted if not all(map(math.isfinite, values)))
    if odd:
        return stored_double(math.nan)
    exact = [(list(map(Fraction, values)), diff) for values, diff in weighted if all(map(math.isfinite, values))]

    def comoment(one: int, other: int) -> Fraction:
        shared = sum(values[one] * values[other] * diff for values, diff in exact)
        return rows * shared - prod(sum(values[at] * diff for values, diff in exact) for at in (one, other))

    found, power = in_units(comoment(0, -1))
    if term.function == "corr":
        one, other = comoment(0, 0), comoment(-1, -1)
        if not (one and other):
            return stored_double(math.nan)
        (first, of_first), (last, of_last) = in_units(one), in_units(other)
        root, of_root = root_of(first * last, of_first + of_last)
        return stored_double(scaled(found / root, power - of_root))
    found /= float(rows) * float(rows - less)
    if term.function in ROOTS:
        found, power = root_of(found, power)
    return stored_double(scaled(found, power))


def in_units(value: Fraction) -> tuple[float, int]:
    """Return a number as a double and a power of two."""
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return float(value / Fraction(2) ** power), power


def root_of(value: float, power: int) -> tuple[float, int]:
    return math.sqrt(value * 2 if power % 2 else value), power // 2


def scaled(value: float, power: int) -> float:
    try:
        return math.ldexp(value, power)
    except OverflowError:
        return math.copysign(math.inf, value)


def threshold(node: Threshold, time: int, rows: Rows) -> Rows:
    return {row: 1 for row, diff in state(rows, time).items() if diff >= node.least}


def at_most_one(node: AtMostOne, time: int, rows: Rows) -> Rows:
    groups = grouped(node, rows, node.keys).values()
    several = (SeveralRowsError(found, time) for found in groups if sum(found.values()) > 1)
    raise_one([*negatives(rows, time), *several])
    return rows


def join(node: Join, _: int, left: Rows, right: Rows) -> Rows:
    kept = [name for name in node.right.schema.names if name not in node.right_keys]
    partners = grouped(node.right, right, node.right_keys)
    return consolidated(
        (row + picked(node.right, other, kept), diff * more)
        for row, diff in left.items()
        for other, more in partners.get(picked(node.left, row, node.left_keys), {}).items()
    )


def extreme(node: Extreme, time: int, rows: Rows) -> Rows:
    best = {"largest": max, "smallest": min}[node.which]
    found: Rows = {}
    for members in grouped(node, state(rows, time), node.keys).values():
        value_of = {row: ordered(named(node, row)[node.column]) for row in members}
        attained = best(value_of.values())
        found |= {row: diff for row, diff in members.items() if value_of[row] == attained}
    return found


def top(node: TopK, time: int, rows: Rows) -> Rows:
    places = node.k
    ranked = list(state(rows, time))
    for name, direction in reversed(node.order):
        ranked.sort(key=lambda row: ordered(named(node, row)[name]), reverse=direction == "descending")
    found: Rows = {}
    for row in ranked:
        if places:
            found[row] = min(rows[row], places)
            places -= found[row]
    return found


def window(node: Window, time: int, rows: Rows) -> Rows:
    by_copy, first = any(each.orders_ties for each in node.functions), node.functions[0]
    to_place = node.limit and first.state == "row_number" and not any(each.with_peers for each in node.functions)
    many = (row for row, count in rows.items() if by_copy and not to_place and count > MAX_COPIES)
    raise_one([*negatives(rows, time), *(ManyCopiesError(row, time) for row in many)])
    most = node.limit if to_place else MAX_COPIES
    refuse_many(rows, sum(min(count, most) if by_copy else 1 for count in rows.values()))
    found: list[tuple[Row, int]] = []
    for members in grouped(node.rows, rows, node.keys).values():
        ranked = in_order(node, members)
        for row, before in ((row, ranked[:at]) for at, row in enumerate(ranked)):
            weights = {each: members[each] for each in before}
            copies = range(1, min(members[row], most) + 1) if by_copy else [members[row]]
            for copy in copies:
                values = tuple(
                    called(node, each, weights | {row: copy}, row, ranked, members) for each in node.functions
                )
                if not node.limit or values[0] <= node.limit:
                    found.append(((*row, *values), 1 if by_copy else copy))
    return consolidated(found)


def refuse_many(rows: Rows, values: int) -> None:
    """Raise an error if a number of values takes too long, for each of which all rows are read."""
    if values * len(rows) > MOST_STEPS:
        raise TooLargeError(f"{values:,} values over {len(rows):,} rows")


def in_order(node: InOrder, members: Rows) -> list[Row]:
    """Return the rows of a group in order. The columns that are not named break ties."""
    ranked = list(members)
    others = [(name, "ascending") for name in node.rows.schema.names if name not in dict(node.order)]
    for name, direction in reversed([*node.order, *others]):
        ranked.sort(key=lambda row: ordered(named(node.rows, row)[name]), reverse=direction == "descending")
    return ranked


def frames(node: Frames, time: int, rows: Rows) -> Rows:
    by_copy = any(each.frame.by_rows for each in node.functions)
    many = (row for row, count in rows.items() if by_copy and count > MAX_COPIES)
    raise_one([*negatives(rows, time), *(ManyCopiesError(row, time) for row in many)])
    refuse_many(rows, sum(count if by_copy else 1 for count in rows.values()))
    found: list[tuple[Row, int]] = []
    for members in grouped(node.rows, rows, node.keys).values():
        ranked, before = in_order(node, members), 0
        for row in ranked:
            for copy in range(members[row] if by_copy else 1):
                values = (in_frame(node, each, row, before + copy, ranked, members) for each in node.functions)
                found.append(((*row, *values), 1 if by_copy else members[row]))
            before += members[row]
    return consolidated(found)


def _length(places: range) -> int:
    """Return the number of places in a range, which `len` limits to 63 bits."""
    return max(places.stop - places.start, 0)


def in_frame(node: Frames, function: FrameFunction, row: Row, place: int, ranked: list[Row], members: Rows) -> int:
    """Return the value of a function for the copy of a row at a place. ranked: all rows, whose copies have places."""
    if function.function == "tile":
        size, larger = divmod(sum(members.values()), function.place)
        tiles = [number for number in range(function.place) for _ in range(size + (number < larger))]
        return tiles[place] + 1
    frame = function.frame
    first = end_of(node, frame.start, row, place, ranked, members, behind=False)
    behind = end_of(node, frame.stop, row, place, ranked, members, behind=True)
    if frame.without in ("nothing", "row"):
        left_out = range(place, place + (frame.without == "row"))
    else:
        peers = Bound("peers")
        left_out = range(*(end_of(node, peers, row, place, ranked, members, behind=each) for each in (False, True)))
    counts: dict[Row, int] = {}
    begin = 0
    for each in ranked:
        end = begin + members[each]
        inside = range(max(first, begin), min(behind, end))
        out = range(max(inside.start, left_out.start), min(inside.stop, left_out.stop))
        kept = frame.without == "ties" and place in inside
        counts[each] = _length(inside) - _length(out) + kept
        begin = end
    if not function.of:
        return sum(counts.values())
    values = [(named(node.rows, each)[function.of], count) for each, count in counts.items() if count > 0]
    known = [(value, count) for value, count in values if value != NULL]
    match function.function:
        case "value":
            return at_place(known if function.known else values, function.place)
        case "count":
            return sum(count for _, count in known)
        case "sum":
            return added(known, node.rows.schema[function.of].kind) if known else NULL
    return {"smallest": min, "largest": max}[function.function]((value for value, _ in known), default=NULL)


def at_place(weighted: list[tuple[int, int]], place: int) -> int:
    """Return the value at a place among the copies of stored values with weights; NULL if there is none."""
    left = place if place >= 0 else sum(count for _, count in weighted) + place
    for value, count in weighted if left >= 0 else ():
        if left < count:
            return value
        left -= count
    return NULL


def added(weighted: list[tuple[int, int]], kind: str) -> int:
    """Return the sum of stored values with weights."""
    if kind == "double":
        return double_sum((double_of(value), count) for value, count in weighted)
    return sum(value * count for value, count in weighted)


def end_of(node: Frames, bound: Bound, row: Row, place: int, ranked: list[Row], members: Rows, *, behind: bool) -> int:
    """Return the place at which a frame begins, or the place behind its last row."""
    if bound.unit == "all":
        return sum(members.values()) if behind else 0
    if bound.unit == "rows":
        return place + bound.offset + behind
    names = [name for name, _ in node.order]
    last, sign = (names[-1], 1 if node.order[-1][1] == "ascending" else -1) if names else ("", 1)
    key = named(node.rows, row)[last] if names else NULL
    keys = {each: picked(node.rows, each, names) for each in ranked}
    groups = list(dict.fromkeys(keys.values()))

    def lies_before(other: Row) -> bool:
        """Return whether a row lies before the place."""
        if bound.unit == "peers" or (key == NULL and bound.unit == "values"):
            return behind if keys[other] == keys[row] else ranked.index(other) < ranked.index(row)
        if bound.unit == "groups":
            distance = groups.index(keys[other]) - groups.index(keys[row])
            return distance <= bound.offset if behind else distance < bound.offset
        own = named(node.rows, other)[last]
        if own == NULL or keys[other][:-1] != keys[row][:-1]:
            return ranked.index(other) < ranked.index(row)
        distance = (own - key) * sign
        return distance <= bound.offset if behind else distance < bound.offset

    return sum(count for other, count in members.items() if lies_before(other))


def called(node: Window, function: WindowFunction, weights: Rows, row: Row, ranked: list[Row], members: Rows) -> int:
    """Return the value of a function for a row. weights: the rows up to this one. ranked, members: all rows."""
    place = {each: picked(node.rows, each, dict(node.order)) for each in ranked}
    earlier = [each for each in weights if place[each] != place[row]]
    if function.state == "rank":
        return sum(members[each] for each in earlier) + 1
    if function.state == "dense_rank":
        return len({place[each] for each in earlier}) + 1
    if function.with_peers:
        weights = {each: members[each] for each in ranked if each in earlier or place[each] == place[row]}
    if not function.of:
        return sum(weights.values())
    values = {each: value for each in weights if (value := named(node.rows, each)[function.of]) != NULL}
    if function.state == "count":
        return sum(weights[each] for each in values)
    if function.state == "sum":
        return sum(weights[each] * value for each, value in values.items()) if values else NULL
    return {"smallest": min, "largest": max}[function.state](values.values(), default=NULL)


def pick(node: Pick, time: int, rows: Rows) -> Rows:
    found: Rows = {}
    for key, members in grouped(node.rows, state(rows, time), node.keys).items():
        ranked = list(members)
        ties = {each.of: "ascending" for each in node.picked if each.of not in dict(node.order)}
        for name, direction in reversed([*node.order, *ties.items()]):
            ranked.sort(key=lambda row: ordered(named(node.rows, row)[name]), reverse=direction == "descending")
        ends, values = list(accumulate(members[row] for row in ranked)), []
        for each in node.picked:
            share = Fraction(each.part, each.whole)
            place = (ends[-1] - 1) * share
            at = {"whole": max(ceil(ends[-1] * share), 1) - 1, "below": floor(place), "above": ceil(place)}
            if each.kind == "texts":
                texts = {row: text for row in ranked if (text := named(node.rows, row)[each.of]) != NULL}
                sizes = {row: len(text.encode()) + len(each.separator.encode()) for row, text in texts.items()}
                if sum(members[row] * max(size, 1) for row, size in sizes.items()) > HEAP_BYTES:
                    raise LongTextError(key, time)
                known = [text for row, text in texts.items() for _ in range(members[row])]
                values.append(each.separator.join(known) if known else NULL)
            elif each.kind == "rest":
                values.append(int(place % 1 * each.whole))
            else:
                values.append(named(node.rows, ranked[bisect_right(ends, at[each.kind])])[each.of])
        found[*key, *values] = 1
    return found


def bound(node: MovingThreshold, time: int, rows: Rows, limits: Rows) -> Rows:
    limit_of = grouped(node.limits, limits, node.limit_keys)
    several = (TwoLimitsError(found, time) for found in limit_of.values() if sum(found.values()) > 1)
    raise_one([*negatives(limits, time), *several, *negatives(rows, time)])

    def kept(row: Row) -> bool:
        found = limit_of.get(picked(node.rows, row, node.row_keys))
        if found is None:
            return False
        (limit,) = (named(node.limits, each) for each in found)
        left = evaluate(node.value, named(node.rows, row)) * (limit[node.denominator] if node.denominator else 1)
        return left > limit[node.numerator] if node.which == "above" else left < limit[node.numerator]

    return {row: diff for row, diff in rows.items() if kept(row)}


def or_null(node: NullRow, time: int, rows: Rows) -> Rows:
    return state(rows, time) or {(NULL,) * len(node.schema.names): 1}


def sample(node: Sample, _: int, rows: Rows) -> Rows:
    def kept(row: Row) -> bool:
        mixed = SALT
        for value in hashed(node, row):
            mixed = mix(mixed, value)
        return mixed % 2**31 < round(node.fraction * 2**31)

    return {row: diff for row, diff in rows.items() if kept(row)}


def hashed(node: Sample, row: Row) -> Iterator[int]:
    """Yield the numbers that stand for the values of a row in its hash."""
    for name, value in zip(node.by, picked(node.rows, row, node.by), strict=True):
        yield text_hash(value) if node.schema[name].kind == "text" else value


def text_hash(text: str | int) -> int:
    if not isinstance(text, str):  # it is missing
        return 2**31 - 1
    content = text.encode()
    mixed = len(content)
    for start in range(0, len(content), 8):
        mixed = mix(mixed, int.from_bytes(content[start : start + 8], "little"))
    return mixed % 2**31


def mix(mixed: int, value: int) -> int:
    """Add a value to a hash of 64 bits with a sign."""
    mixed = (mixed ^ value) * GOLDEN % 2**64
    mixed -= mixed >> 63 << 64
    return mixed ^ mixed >> 32


def repeat(node: Repeat, _: int, rows: Rows) -> Rows:
    given = ((row, diff, named(node.rows, row)[node.times]) for row, diff in rows.items())
    return consolidated((picked(node.rows, row, node.schema.names), diff * times) for row, diff, times in given)


def consolidate(_: Node, __: int, rows: Rows) -> Rows:
    return rows


OPERATORS: dict[type[Node], Callable[..., Rows]] = {
    Filter: where, Project: select, Concat: concat, Negate: negate, Aggregate: aggregate, Threshold: threshold,
    Join: join, Extreme: extreme, TopK: top, MovingThreshold: bound, NullRow: or_null, Consolidate: consolidate,
    Sample: sample, Window: window, Frames: frames, AtMostOne: at_most_one, Pick: pick, Repeat: repeat,
}  # fmt: skip
