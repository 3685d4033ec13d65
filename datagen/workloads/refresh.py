"""The workload refresh:K, TPC-H's refresh functions: a load as in `insert` without the last K*S orders
(S = max(1, floor(SF*1500))), for R rounds; then round R+2k inserts the next S of them, and round R+2k+1 retracts the S
oldest ones.
"""

from __future__ import annotations

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RELATION_NAMES, RelationName
from deltamark.datagen.workloads.workload import ChangedRows, Workload, in_one_round
from deltamark.errors import DeltamarkError


def orders_in_step(dataset: Dataset) -> int:
    return max(1, int(dataset.manifest.scale_factor * 1500))


class Refresh(Workload):
    def __init__(self, dataset: Dataset, steps: int) -> None:
        self.name = f"refresh:{steps}"
        self._size = orders_in_step(dataset)
        self.dataset = dataset
        orders = dataset.rows("orders")
        self._loaded = orders - steps * self._size
        if self._loaded < 0:
            steps = orders // self._size
            raise DeltamarkError("not enough orders to hold back", self.name, f"at this scale at most refresh:{steps}")
        self._load = {name: dataset.rows(name) for name in RELATION_NAMES}
        self._load["orders"] = self._loaded
        self._load["lineitem"] = self._line(self._loaded)
        self._load_rounds = max(self._load.values())
        self.rounds = self._load_rounds + 2 * steps

    def most_live(self, name: RelationName) -> int:
        return self.dataset.rows(name)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        pieces = []
        if start < (loaded := min(stop, self._load[name])):
            pieces.append(ChangedRows(range(start, loaded), 1, start))
        if name in ("orders", "lineitem"):
            steps = range(max(start, self._load_rounds), min(stop, self.rounds))
            pieces += [self._step(name, round_) for round_ in steps]
        return pieces

    def _step(self, name: RelationName, round_: int) -> ChangedRows:
        step, retracts = divmod(round_ - self._load_rounds, 2)
        low = step * self._size + (0 if retracts else self._loaded)
        high = low + self._size
        if name == "lineitem":
            low, high = self._line(low), self._line(high)
        return in_one_round(range(low, high), -1 if retracts else 1, round_)

    def _line(self, order: int) -> int:
        return int(self.dataset.first_lines(order, order + 1)[0])
