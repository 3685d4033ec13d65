"""The passes over plans: the columns that are required, the arrangements that are shared, and the exchanges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_plans.strategies import cases
from support.reference.required import columns_read
from support.written_plans.relations import items, others

from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.at_most_one import AtMostOne
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.distribution import FIRST, SLICED, WHOLE
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Filter
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.operators.top import TopK
from deltamark.dataflow.passes.partition import partition
from deltamark.dataflow.passes.prune import prune, required_columns
from deltamark.dataflow.passes.share import share


def shared(plans):
    return share(prune(plans), lambda *_: None, 1)


@given(cases())
def test_every_column_that_is_read_is_required(case):
    columns = required_columns(case.collection.node)
    for node, names in columns_read(case.collection.node).items():
        assert names <= set(columns.get(node, ()))


@given(cases())
def test_required_columns_are_columns_of_their_nodes(case):
    pruned = prune({"answer": case.collection.node})
    assert set(pruned.nodes) == set(pruned.columns)
    for node in pruned.nodes:
        assert set(pruned.columns[node]) <= set(node.schema.names)
        assert all(each in pruned.columns for each in node.inputs)


def test_columns_that_no_answer_uses_are_not_required():
    plan = items.join(others, on="key").aggregate("day", sum=col.value.sum())
    columns = required_columns(plan.node)
    assert set(columns[items.node]) == {"key", "value"}
    assert set(columns[others.node]) == {"key", "day"}


def test_an_arrangement_that_exists_requires_nothing_of_its_inputs():
    plan = items.join(others, on="key")
    result = share(prune({"": plan.node}), lambda key, *_: "built" if key.node is items.node else None, 1)
    assert result.existing == {(plan.node, 0): "built"}
    assert items.node not in result.pruned.columns
    assert others.node in result.pruned.columns


def test_each_side_of_a_join_reads_one_arrangement():
    plans = {str(least): items.where(col.value > least).join(others, on="key").node for least in range(3)}
    result = shared(plans)
    assert set(result.inputs) == {(plan, side) for plan in plans.values() for side in (0, 1)}
    for (join, side), each in result.inputs.items():
        assert set(result.stored[each.node, each.names(join.keys[side])]) >= set(each.terms.values()) - {
            each.terms[name] for name in join.keys[side]
        }


@given(cases())
def test_a_worker_alone_exchanges_nothing(case):
    partitioned = partition(prune({"answer": case.collection.node}), 1)
    for each in partitioned.operators.values():
        assert set(each.exchanges) <= {None}
        assert each.distribution == FIRST


@given(cases(), st.integers(2, 4))
def test_an_operator_with_state_has_equal_rows_at_one_worker(case, workers):
    pruned = prune({"answer": case.collection.node})
    partitioned = partition(pruned, workers)
    for node, each in partitioned.operators.items():
        if isinstance(node, Input):
            continue
        after = [
            partitioned.operators[below].distribution if exchange is None else exchange.applied()
            for below, exchange in zip(node.inputs, each.exchanges, strict=True)
        ]
        if set(after) <= {WHOLE}:
            assert each.distribution == WHOLE
            continue
        match node:
            case Threshold() | Consolidate() | NullRow() | TopK() | AtMostOne():
                assert all(place.equal_rows_meet for place in after)
            case Aggregate():
                assert after[0].equal_rows_meet or each.distribution.kind == "scanned"
            case Join() | MovingThreshold() if node.keys[0]:
                apart = [place for place in after if place != WHOLE]
                assert all(place.equal_rows_meet for place in apart)
                assert len({place.kind for place in apart}) == 1


@given(cases(), st.integers(2, 4))
def test_only_rows_that_every_worker_has_or_chooses_from_its_slice_are_dealt(case, workers):
    pruned = prune({"answer": case.collection.node})
    partitioned = partition(pruned, workers)
    dealt = {
        below: exchange.dealt
        for node, each in partitioned.operators.items()
        for below, exchange in zip(node.inputs, each.exchanges, strict=True)
        if exchange is not None
    }
    for below, is_dealt in dealt.items():
        distribution = partitioned.operators[below].distribution
        chooses = isinstance(below, Filter) and isinstance(below.rows, Input) and distribution == SLICED
        assert is_dealt == (distribution == WHOLE or chooses)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_required_node_has_a_distribution(workers):
    plan = items.join(others, on="key").distinct("day").top(2, [])
    pruned = prune({"answer": plan.node})
    assert set(partition(pruned, workers).operators) == set(walk(plan.node))
