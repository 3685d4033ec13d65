"""The result of a comparison as JSON, with every sample, for programs that judge or plot it themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from deltamark.harness.compare.gate import Judgement, Outcome, Pairs
from deltamark.harness.compare.rule import QUANTITIES, Pair, bytes_per_row
from deltamark.harness.compare.summary import ComparisonHeader, headline, unit_name

VERSION = 1
"""The version of the format. Fields may be added without a new one."""


def as_json(outcome: Outcome, header: ComparisonHeader) -> bytes:
    """Return the verdict, the judgements, and the samples that they rest on. Times are seconds, sizes bytes."""
    found = {
        "version": VERSION, "verdict": outcome.verdict, "exit_code": outcome.exit_code, "headline": headline(outcome),
        "base": header.base, "head": header.head, "machine": header.machine, "command": header.command,
        "quantities": [each.name for each in QUANTITIES],
        "judgements": [_judgement(each) for each in outcome.judgements],
        "broken": {unit_name((cell,)): problem for cell, problem in outcome.broken.items()},
        "not_compared": {unit_name((cell,)): problem for cell, problem in outcome.skipped.items()},
        "bytes_per_row": {unit_name((cell,)): _bytes_per_row(pairs) for cell, pairs in outcome.screening.items()},
        "screening": _samples(outcome.screening), "confirming": _samples(outcome.confirming),
        "control_seconds": outcome.controls,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(found), indent=1)


def _judgement(judgement: Judgement) -> dict[str, Any]:
    change = judgement.change
    return {
        "name": unit_name(judgement.cells), "cells": [unit_name((cell,)) for cell in judgement.cells],
        "quantity": change.quantity.name, "verdict": change.verdict, "base": change.base, "head": change.head,
        "phase": change.phase, "pairs": change.pairs, "ratio": _ratio(change.log_ratio),
        "interval": [_ratio(bound) for bound in change.bounds] if change.bounds else None,
    }  # fmt: skip


def _ratio(log_ratio: float) -> float | None:
    """Return head / base; None if it is not known."""
    return None if math.isnan(log_ratio) else math.exp(log_ratio)


def _bytes_per_row(pairs: Sequence[Pair]) -> dict[str, float] | None:
    found = bytes_per_row(pairs)
    return dict(zip(("base", "head"), found, strict=True)) if found else None


def _samples(pairs: Pairs) -> dict[str, list[dict[str, Any]]]:
    return {
        unit_name((cell,)): [{"base": dict(pair.base), "head": dict(pair.head)} for pair in each]
        for cell, each in pairs.items()
    }
