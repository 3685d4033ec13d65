"""Edges and columns that no later stage reads do not travel.

A node may have readers in several stages, which read different columns of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.passes.prune import prune
from deltamark.dataflow.passes.rewrite import rewrite
from deltamark.dataflow.passes.share import share
from deltamark.dataflow.spark.planning.stage_outputs import ROW_NUMBERS, select
from deltamark.dataflow.spark.planning.staged_plan import ANSWER, StageOutput


def without_unread_columns(stages: Sequence[Sequence[StageOutput]]) -> list[list[StageOutput]]:
    """Drop the edges, and the columns of edges, that no later stage reads, from the last stage to the first."""
    read = defaultdict[str, set[str]](set, {ANSWER: set()})
    kept: list[list[StageOutput]] = []
    for outputs in reversed(stages):
        kept.append([_with_columns(each, read[each.edge.name]) for each in outputs if each.edge.name in read])
        on_other_shards = [output for output in kept[-1] if not output.first_shard_only]
        for edge, names in (*_columns_read(kept[-1]), *_columns_read(on_other_shards)):
            read[edge] |= {*names}
    return kept[::-1]


def _columns_read(outputs: Sequence[StageOutput]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the columns that the program of some outputs reads, for each of its inputs."""
    pruned = prune(rewrite({output.edge.name: output.node for output in outputs}))
    for node, names in share(pruned, lambda *_: None, 1).pruned.columns.items():
        if isinstance(node, Input):
            yield node.name, names


def _with_columns(output: StageOutput, names: Collection[str]) -> StageOutput:
    """Keep the columns of an output with some names, and those by which its rows find their shards."""
    edge = output.edge
    if edge.name == ANSWER:
        return output
    fields = tuple(field for field in edge.fields if field.name in {*names, *edge.by})
    texts = {field.name: output.texts[field.name] for field in fields if field.name in output.texts}
    computed = [field for field in fields if field.name not in texts]
    node = select(output.node, [*computed, ROW_NUMBERS] if texts else computed)
    return replace(output, edge=replace(edge, fields=fields), node=node, texts=texts)
