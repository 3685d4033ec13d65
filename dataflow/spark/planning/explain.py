"""Text of a staged plan: the operators of each stage, and the edges on which their results travel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.staged_plan import ANSWER, Edge, StagedPlan, StageOutput


def explain_stages(plan: StagedPlan) -> str:
    """Describe each stage of a plan. Stage 0 has a program for each output, as the inputs are read."""
    read, *later = plan.stages
    stage_zero = [line for output in read for line in (_operators([output]), _edge(output.edge))]
    blocks = [["stage 0, where inputs are read", *stage_zero]]
    for number, outputs in enumerate(later, 1):
        edges = [f"{_edge(output.edge)}{', from the first shard' * output.first_shard_only}" for output in outputs]
        blocks.append([f"stage {number}", _operators(outputs), *edges])
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _operators(outputs: Sequence[StageOutput]) -> str:
    with closing(Dataflow({output.edge.name: Collection(output.node) for output in outputs})) as dataflow:
        return dataflow.explain()


def _edge(edge: Edge) -> str:
    to = {
        "owner": f"by {', '.join(edge.by)}",
        "first": "to the first shard",
        "all": "to all shards",
        "here": "in place",
    }
    names = ", ".join(each.name.replace("\0", " ") for each in edge.fields)
    if edge.name == ANSWER:
        return f"      => the answer: {names}"
    return f"      => {edge.name}, to stage {edge.stage} {to[edge.to]}: {names}"
