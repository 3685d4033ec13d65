"""Moving thresholds over any limits: the planner makes these nodes only from some comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import bind
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.plan.terms import column, number, rescaled


def above(
    rows: Collection, limits: Collection, value: Any, numerator: str, denominator: str = "", on: Any = ()
) -> Collection:
    """Keep the rows whose value * denominator > numerator, in the row of `limits` with the same keys."""
    return _moving_threshold("above", rows, limits, value, (numerator, denominator), on)


def below(
    rows: Collection, limits: Collection, value: Any, numerator: str, denominator: str = "", on: Any = ()
) -> Collection:
    """Keep the rows whose value * denominator < numerator, as `above` does."""
    return _moving_threshold("below", rows, limits, value, (numerator, denominator), on)


def _moving_threshold(
    which: Literal["above", "below"], rows: Collection, limits: Collection, value: Any, ratio: tuple[str, str], on: Any
) -> Collection:
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in ([on] if isinstance(on, str) else on)}
    numerator, denominator = ratio
    term, limit = bind(value, rows.schema), column(numerator, limits.schema[numerator])
    divisor = column(denominator, limits.schema[denominator]) if denominator else number(1)
    scale = max(term.type.scale + divisor.type.scale, limit.type.scale)
    term = rescaled(term, scale - divisor.type.scale)
    if limit.type.scale < scale:
        names = dict.fromkeys([*pairs.values(), *filter(None, [denominator])])
        terms = {name: column(name, limits.schema[name]) for name in names}
        limits, numerator = limits._project({**terms, "limit'": rescaled(limit, scale)}), "limit'"
    return Collection(
        MovingThreshold(
            rows.node, limits.node, tuple(pairs), tuple(pairs.values()), term, which, numerator, denominator,
            schema=rows.schema,
        )
    )  # fmt: skip
