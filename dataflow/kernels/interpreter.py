"""The interpreter divides a feed into slices, and runs every operator of a program on each of them.

Slices are small, so that the vectors between operators stay in the cache. A slice ends between two times if it can. A
time with more rows than a slice passes in pieces, and the frontier stays at it: operators that emit at the end of a
time wait until the frontier has passed it.
"""

from __future__ import annotations

from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.consolidate import ConsolidateBlock, consolidate
from deltamark.dataflow.kernels.arrangements.insert import insert
from deltamark.dataflow.kernels.arrangements.join import JoinBlock, join
from deltamark.dataflow.kernels.arrangements.merge import MergeBlock, merge
from deltamark.dataflow.kernels.arrangements.settle import settle
from deltamark.dataflow.kernels.batches import complete_batch
from deltamark.dataflow.kernels.core.blocks import Operator
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import heed_signals
from deltamark.dataflow.kernels.expressions import (
    BinaryBlock,
    ChooseBlock,
    FillBlock,
    FilterRangeBlock,
    FilterTrueBlock,
    LookupBlock,
    MemberBlock,
    PackBlock,
    SetBitBlock,
    TakeBlock,
    UnpackBlock,
)
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock, aggregate
from deltamark.dataflow.kernels.groups.bucket import BucketBlock, bucket
from deltamark.dataflow.kernels.groups.group_changes import update_groups
from deltamark.dataflow.kernels.groups.grouped_rows import GroupedRowsBlock
from deltamark.dataflow.kernels.groups.threshold import ThresholdBlock, threshold
from deltamark.dataflow.kernels.hashing.hash_map import needs_rehash
from deltamark.dataflow.kernels.hashing.interner import InternBlock, intern
from deltamark.dataflow.kernels.loops.iterate import IterateBlock, LoopSourceBlock, RepeatBlock, enter, iterate
from deltamark.dataflow.kernels.loops.join import LoopJoinBlock, loop_join
from deltamark.dataflow.kernels.loops.reduce import buffer_updates
from deltamark.dataflow.kernels.loops.reduce_state import ReduceInputBlock
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs.extend import ExtendBlock, extend
from deltamark.dataflow.kernels.motifs.index import IndexBlock, SettleIndexBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.parallel.deal import DealBlock, deal
from deltamark.dataflow.kernels.parallel.exchange import ExchangeBlock, receive, send
from deltamark.dataflow.kernels.parallel.key_partition import CompactBlock, ExpandBlock, compact, expand
from deltamark.dataflow.kernels.parallel.prefix_aggregate import PrefixAggregateBlock, prefix_aggregate
from deltamark.dataflow.kernels.program import (
    IDLE_BLOCK_WORDS,
    CollectBlock,
    IdleBlock,
    LateBlock,
    ProgramBlock,
    RoomBlock,
    SliceBlock,
    adapt_slice,
    collect,
    cut,
    take_slice,
)
from deltamark.dataflow.kernels.status import BACK, DONE, FORWARD, NEEDS_ROOM, WAITING
from deltamark.dataflow.kernels.text import functions as text
from deltamark.dataflow.kernels.text import pool as text_pool
from deltamark.dataflow.kernels.text.functions import (
    InputTextsBlock,
    MatchBlock,
    SubstringBlock,
    TextFunctionBlock,
    TextPairBlock,
)
from deltamark.dataflow.kernels.text.pool import NumberedTextsBlock, NumberTextsBlock
from deltamark.dataflow.kernels.unread import skip_unread

STEPS_PER_POLL = 8
"""Operators that run between two calls of `heed_signals`. Not measured."""


@kernel
def run(address: int, start: int) -> int:
    """Run from an operator, or from the next slice (start -1), to the end of the feed or its last batch; return DONE.

    If an operator cannot go on, return 4 * its number + its status. Once the reason is removed, start there again. So
    the first operator of each superstep waits once a worker has failed.
    """
    program = ProgramBlock(address)
    at, steps = start, 0
    while True:
        heed_signals()
        if at < 0:
            skip_unread(program)
            cut(program)
            at = 0
            program.running = 0
            if program.stop != 0:
                return WAITING
        while at < program.ops:
            idle = IdleBlock(program.idle[IDLE_BLOCK_WORDS * at :].address)
            if idle.first == 0 and idle.second == 0 and idle.third == 0 and idle.fourth == 0:
                at += idle.skipped
                continue
            op = program.op_blocks[at]
            program.running = at
            status = _step(op)
            steps += 1
            if steps & (STEPS_PER_POLL - 1) == 0:
                heed_signals()
            if status == FORWARD:
                at += IterateBlock(op).length
            elif status == BACK:
                at -= RepeatBlock(op).length + 1
            elif status != DONE:
                return 4 * at + status
            at += 1
        adapt_slice(program)
        if program.more == 0 and not (program.batches != 0 and complete_batch(program)):
            return DONE
        at = -1


@inline
def _step(op: int) -> int:
    """Run one operator; return its status."""
    code = Operator(op).opcode
    if code == Opcode.FILTER_RANGE:
        expressions.filter_range(FilterRangeBlock(op))
    elif code == Opcode.FILTER_TRUE:
        expressions.filter_true(FilterTrueBlock(op))
    elif code == Opcode.TAKE:
        expressions.take(TakeBlock(op))
    elif code == Opcode.ADD:
        expressions.add(BinaryBlock(op))
    elif code == Opcode.SUBTRACT:
        expressions.subtract(BinaryBlock(op))
    elif code == Opcode.MULTIPLY:
        expressions.multiply(BinaryBlock(op))
    elif code == Opcode.QUOTIENT:
        expressions.quotient(BinaryBlock(op))
    elif code == Opcode.EQUAL:
        expressions.equal(BinaryBlock(op))
    elif code == Opcode.LESS:
        expressions.less(BinaryBlock(op))
    elif code == Opcode.AND:
        expressions.and_(BinaryBlock(op))
    elif code == Opcode.OR:
        expressions.or_(BinaryBlock(op))
    elif code == Opcode.SUBTRACT_FROM:
        expressions.subtract_from(BinaryBlock(op))
    elif code == Opcode.COALESCE:
        expressions.coalesce(BinaryBlock(op))
    elif code == Opcode.LOOKUP:
        expressions.lookup(LookupBlock(op))
    elif code == Opcode.MEMBER:
        expressions.member(MemberBlock(op))
    elif code == Opcode.CHOOSE:
        expressions.choose(ChooseBlock(op))
    elif code == Opcode.FILL:
        expressions.fill(FillBlock(op))
    elif code == Opcode.SET_BIT:
        expressions.set_bit(SetBitBlock(op))
    elif code == Opcode.PACK:
        expressions.pack(PackBlock(op))
    elif code == Opcode.UNPACK:
        expressions.unpack(UnpackBlock(op))
    elif code == Opcode.INPUT_TEXTS:
        text.input_texts(InputTextsBlock(op))
    elif code == Opcode.NUMBERED_TEXTS:
        text_pool.numbered_texts(NumberedTextsBlock(op))
    elif code == Opcode.NUMBER_TEXTS:
        return text_pool.number_texts(NumberTextsBlock(op))
    elif code == Opcode.MATCH:
        text.match(MatchBlock(op))
    elif code == Opcode.PRECEDES:
        text.precedes(TextPairBlock(op))
    elif code == Opcode.SUBSTRING:
        return text.substring(SubstringBlock(op))
    elif code == Opcode.PREFIX:
        text.prefix(TextFunctionBlock(op))
    elif code == Opcode.HASHES:
        text.hashes(TextFunctionBlock(op))
    elif code == Opcode.NEEDS_REHASH:
        return NEEDS_ROOM if needs_rehash(RoomBlock(op).keys, RoomBlock(op).coming) else DONE
    elif code == Opcode.INTERN:
        return intern(InternBlock(op))
    elif code == Opcode.INSERT:
        insert(ArrangementBlock(op))
    elif code == Opcode.SETTLE:
        return settle(ArrangementBlock(LateBlock(op).block))
    elif code == Opcode.JOIN:
        return join(JoinBlock(op))
    elif code == Opcode.AGGREGATE:
        return aggregate(AggregateBlock(op))
    elif code == Opcode.THRESHOLD:
        return threshold(ThresholdBlock(op))
    elif code == Opcode.MERGE:
        merge(MergeBlock(op))
    elif code == Opcode.CONSOLIDATE:
        return consolidate(ConsolidateBlock(op))
    elif code == Opcode.UPDATE_GROUPS:
        return update_groups(GroupedRowsBlock(op))
    elif code == Opcode.BUCKET:
        bucket(BucketBlock(op))
    elif code == Opcode.COLLECT:
        collect(CollectBlock(op))
    elif code == Opcode.TAKE_SLICE:
        take_slice(SliceBlock(op))
    elif code == Opcode.DEAL:
        deal(DealBlock(op))
    elif code == Opcode.SEND:
        return send(ExchangeBlock(op))
    elif code == Opcode.RECEIVE:
        return receive(ExchangeBlock(LateBlock(op).block))
    elif code == Opcode.COMPACT:
        compact(CompactBlock(op))
    elif code == Opcode.EXPAND:
        expand(ExpandBlock(op))
    elif code == Opcode.PREFIX_AGGREGATE:
        return prefix_aggregate(PrefixAggregateBlock(op))
    elif code == Opcode.ENTER:
        enter(LoopSourceBlock(op))
    elif code == Opcode.ITERATE:
        return iterate(IterateBlock(op))
    elif code == Opcode.LOOP_JOIN:
        return loop_join(LoopJoinBlock(op))
    elif code == Opcode.BUFFER_UPDATES:
        return buffer_updates(ReduceInputBlock(op).reduce)
    elif code == Opcode.REPEAT:
        return BACK
    elif code == Opcode.INSERT_INDEX:
        index_kernel.insert(IndexBlock(op))
    elif code == Opcode.SETTLE_INDEX:
        return index_kernel.settle(SettleIndexBlock(op).index)
    elif code == Opcode.EXTEND:
        return extend(ExtendBlock(op))
    return DONE
