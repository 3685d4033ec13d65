"""Explanations of plans that are divided into stages: a tree for each edge, above the inputs of its stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.explain import PlanTree
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.linear import Filter, Negate, Project
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.plan.term_sql import listed
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.spark.planning.staged_plan import ROW, Edge, StagedPlan, StageOutput
from deltamark.dataflow.types import Schema


def explain_stages(plan: StagedPlan) -> str:
    """Describe the program of each stage, and the shards to which its results go."""
    tree = PlanTree()
    for number, outputs in enumerate(plan.stages):
        tree.add_heading(f"stage {number}" + (", where inputs are read" if number == 0 else ""))
        # stage 0 has a program for each edge, which reads the input by itself
        for each in [[output] for output in outputs] if number == 0 else [outputs]:
            _add(tree, each)
    return str(tree)


def _add(tree: PlanTree, outputs: Sequence[StageOutput]) -> None:
    """Add the program of some edges."""
    compiled = compile_plans({each.edge.name: _without_row_numbers(each) for each in outputs})
    try:
        tree.add(compiled, {}, {each.edge.name: _title(each) for each in outputs})
    finally:
        compiled.program.memory.close()


def _without_row_numbers(output: StageOutput) -> Node:
    """Return the plan of an edge with its texts as columns, instead of the row number by which they are fetched."""
    if not output.texts:
        return _without_row_number(output.node)
    (below,) = output.node.inputs
    columns = tuple((each.name, column(each.name, each.type)) for each in output.edge.fields)
    return Project(_without_row_number(below), columns, schema=Schema(output.edge.fields, below.schema.rows))


def _without_row_number(node: Node) -> Node:
    """Remove the row number from the chain of operators at the top of a plan."""
    schema = replace(node.schema, fields=tuple(each for each in node.schema.fields if each.name != ROW))
    match node:
        case Project():
            columns = tuple((name, term) for name, term in node.columns if name != ROW)
            return replace(node, rows=_without_row_number(node.rows), columns=columns, schema=schema)
        case Filter() | Negate():
            return replace(node, rows=_without_row_number(node.rows), schema=schema)
        case Input():
            return replace(node, schema=schema)
        case _:
            return node


def _title(output: StageOutput) -> str:
    """Describe an edge: its name, its destination and its columns."""
    edge, origin = output.edge, ", from the first shard" if output.first_shard_only else ""
    columns = listed(each.name for each in edge.fields)
    if edge.to == "sink":
        return f"{edge.name}{origin}: {columns}"
    return f"edge {edge.name} to stage {edge.stage} {_destination(edge)}{origin}: {columns}"


def _destination(edge: Edge) -> str:
    match edge.to:
        case "owner":
            return f"by {listed(edge.by)}"
        case "first":
            return "at the first shard"
        case "all":
            return "at all shards"
        case "here" | "sink":
            return "at the same shard"
