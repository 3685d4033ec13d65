"""A cut plan in words: what each stage computes, and for whom."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.edges import ANSWER, Cut, Edge


def staged(plan: Cut) -> str:
    """Describe a cut plan: of each stage its operators, and what goes where."""
    blocks = []
    for number, outputs in enumerate(plan.stages):
        programs = [Dataflow({output.edge.name: Collection(output.node)}) for output in outputs] if number == 0 else [
            Dataflow({output.edge.name: Collection(output.node) for output in outputs})
        ]  # fmt: skip
        said = [program.explain() for program in programs]
        for program in programs:
            program.close()
        if number == 0:
            said = [f"{text}\n{_goes(output.edge)}" for text, output in zip(said, outputs, strict=True)]
        else:
            said += [f"{_goes(output.edge)}{', from the first shard' * output.first}" for output in outputs]
        blocks.append("\n".join([f"stage {number}" + (", where inputs are read" if number == 0 else ""), *said]))
    return "\n\n".join(blocks)


def _goes(edge: Edge) -> str:
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
