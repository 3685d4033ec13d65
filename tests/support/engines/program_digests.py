"""A process that prints the digest of the program of each plan, which must be the same in every process."""

from __future__ import annotations

import json
from collections.abc import Mapping

from support.written_plans.operators import OPERATORS

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.runtime.saved_state import identity

if __name__ == "__main__":
    plans: Mapping[str, Mapping[str, Collection]] = {name: {name: each} for name, each in OPERATORS.items()}
    found = {}
    for name, each in {**plans, "all": dict(OPERATORS)}.items():
        live = LivePlans(each)
        found[name] = identity(live.compiled, live.images.of[0])
        live.close()
    print(json.dumps(found))
