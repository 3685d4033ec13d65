"""Rewriting: the first pass replaces parts of plans by others with the same result, which cost less to maintain."""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.dataflow.plan.nodes import Node
from deltamark.dataflow.plan.passes.early_terms import with_early_terms
from deltamark.dataflow.plan.passes.moving_thresholds import with_moving_thresholds


def rewrite(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Rewrite plans, which are given and returned by name."""
    return with_early_terms(with_moving_thresholds(plans))
