"""A stage as Spark runs it: a processor with a group of rows a shard, whose state is the shard's log.

A shard that is alive in this process is fed the batch at hand; one that is not, or is behind, is made from its log
first, or brought up to date by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from dataflow.spark import live
from dataflow.spark.edges import ANSWER, Cut
from dataflow.spark.memory import Kept, StateLog
from dataflow.spark.reading import Sent
from dataflow.spark.shard import Shard
from dataflow.spark.sink import handed
from deltamark import DeltamarkError


class Stage(StatefulProcessor):
    def __init__(self, plan: Cut, stage: int, labels: tuple[int, ...], run: str) -> None:
        self._plan, self._stage, self._labels, self._run = plan, stage, labels, run
        self._is_last = stage == len(plan.stages) - 1

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._log = StateLog(handle)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """Apply a batch to a shard."""
        number = self._labels.index(int(key[0]))
        batch, mails = _sorted(rows)
        kept = self._log.kept()
        if batch <= kept.batch:
            actual = f"{batch} after {kept.batch}, in shard {number} of stage {self._stage}"
            raise DeltamarkError("a batch comes again", actual, "remove the directory and start again")
        name = live.Key(self._run, self._stage, number)
        shard = self._shard(name, kept)
        changes, net = shard.feed(mails)
        self._log.append(kept, batch, net, shard.edges)
        if not self._is_last:
            here = self._plan.arriving(self._stage)
            passing = [(number, edge, each) for edge, found in mails.items() if edge not in here for each in found]
            yield from self._frames(batch, [*passing, *shard.sent(changes)])
        elif ANSWER in changes:
            yield handed(self._plan.schema, changes[ANSWER])
        live.keep(name, batch, shard)

    def close(self) -> None:
        """Do nothing: shards stay alive for the next batch."""

    def _shard(self, name: live.Key, kept: Kept) -> Shard:
        """Return a shard as it was after the last batch."""
        found = live.take(name, kept.batch)
        if found and not kept.divides(found[0]):
            found[1].close()
            found = None
        batch, shard = found or (-1, Shard(self._plan, name.stage, name.shard, len(self._labels)))
        if batch < kept.batch:
            shard.remember(self._log.after(kept, batch))
        return shard

    def _frames(self, batch: int, sent: Iterable[Sent]) -> Iterator[pd.DataFrame]:
        for shard, edge, content in sent:
            yield pd.DataFrame({
                "label": [self._labels[shard]], "edge": [edge], "batch": [batch], "content": [content]
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
