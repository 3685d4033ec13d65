"""What a shard does with a batch: it is fed, its changes are sent on, and its log says what came.

A shard that is alive in this process is fed the batch at hand; one that is not, or is behind, is made from its log
first, or brought up to date by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from deltamark.dataflow.spark import shard_cache
from deltamark.dataflow.spark.ingest.stage_zero import Sent
from deltamark.dataflow.spark.planning.edges import ANSWER
from deltamark.dataflow.spark.shard import Shard
from deltamark.dataflow.spark.sink import handed
from deltamark.dataflow.spark.stage import Part
from deltamark.dataflow.spark.state_log import Kept, StateLog
from deltamark.errors import DeltamarkError


class Turn:
    """A shard of a stage, by its label, and its log."""

    def __init__(self, part: Part, label: int, log: StateLog) -> None:
        self._part, self._log = part, log
        self._name = shard_cache.ShardKey(part.run, part.stage, part.labels.index(label))

    def take(self, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Apply a batch; hand out what goes to the next stage, or the changes of the answer."""
        part, name = self._part, self._name
        batch, mails = _sorted(rows)
        kept = self._log.kept()
        if batch <= kept.batch:
            actual = f"{batch} after {kept.batch}, in shard {name.shard} of stage {name.stage}"
            raise DeltamarkError("a batch comes again", actual, "remove the directory and start again")
        shard = self._shard(kept)
        changes, net = shard.feed(mails)
        self._log.append(kept, batch, net, shard.edges)
        if part.stage < len(part.plan.stages) - 1:
            here = part.plan.arriving(part.stage)
            passing = [(name.shard, edge, each) for edge, found in mails.items() if edge not in here for each in found]
            yield from self._frames(batch, [*passing, *shard.sent(changes)])
        elif ANSWER in changes:
            yield handed(part.plan.schema, changes[ANSWER])
        shard_cache.keep(name, batch, shard)

    def _shard(self, kept: Kept) -> Shard:
        """Return a shard as it was after the last batch."""
        name = self._name
        found = shard_cache.take(name, kept.batch)
        if found and not kept.divides(found[0]):
            found[1].close()
            found = None
        batch, shard = found or (-1, Shard(self._part.plan, name.stage, name.shard, len(self._part.labels)))
        if batch < kept.batch:
            shard.remember(self._log.after(kept, batch))
        return shard

    def _frames(self, batch: int, sent: Iterable[Sent]) -> Iterator[pd.DataFrame]:
        for shard, edge, content in sent:
            yield pd.DataFrame({
                "label": [self._part.labels[shard]], "edge": [edge], "batch": [batch], "content": [content]
            })  # fmt: skip


def _sorted(rows: Iterator[pd.DataFrame]) -> tuple[int, dict[str, list[bytes]]]:
    """Put mails in the order of their edges; return the batch that they are of, too."""
    found: dict[str, list[bytes]] = {}
    batches = set()
    for frame in rows:
        for edge, batch, content in zip(frame["edge"], frame["batch"], frame["content"], strict=True):
            batches.add(int(batch))
            found.setdefault(edge, []).append(content)
    if len(batches) != 1:
        raise DeltamarkError("sources out of step", f"batches {sorted(batches)} at once", "start with a new directory")
    return batches.pop(), found
