"""A process that prints the digest of the program of each plan, which must be the same in every process."""

from __future__ import annotations

import json
from collections.abc import Mapping

from support.written_plans.operators import OPERATORS

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.input import Input, base_inputs
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.runtime.saved_state import identity


def together() -> dict[str, Collection]:
    """Return plans of many operators whose inputs with one name are one input."""
    inputs: dict[str, Input] = {}
    return {
        name: plan
        for name, plan in OPERATORS.items()
        if all(inputs.setdefault(each.name, each) is each for each in base_inputs(plan.node))
    }


def program_digest(plans: Mapping[str, Collection]) -> str:
    live = LivePlans(plans)
    try:
        return identity(live.compiled, live.images.of[0])
    finally:
        live.close()


if __name__ == "__main__":
    digests = {name: program_digest({name: each}) for name, each in OPERATORS.items()}
    print(json.dumps({**digests, "together": program_digest(together())}))
