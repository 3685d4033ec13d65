"""Laws of samples: values alone decide which rows are kept, about as many as the fraction says."""

from __future__ import annotations

import numpy as np
import pytest
from support.engines.driving import at_once

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError

ROWS = 10_000

numbers = source("numbers", {"shop": integer(0, 499), "number": integer(0, ROWS)}, ROWS)


def kept(collection):
    rng = np.random.default_rng(1)
    shops = rng.integers(0, 500, ROWS).tolist()
    found = at_once(collection, {"numbers": [((shop, at), 0, 1) for at, shop in enumerate(shops)]})
    return {row for _, row in found}


@pytest.mark.parametrize("by", [(), "number", "shop"])
@pytest.mark.parametrize("fraction", [0, 0.1, 0.5, 1])
def test_a_sample_has_about_its_fraction_of_the_rows(fraction, by):
    assert abs(len(kept(numbers.sample(fraction, by))) - fraction * ROWS) < 0.05 * ROWS


def test_a_larger_sample_has_all_rows_of_a_smaller_one():
    assert kept(numbers.sample(0.2)) < kept(numbers.sample(0.3))


def test_all_rows_of_a_key_share_its_fate():
    every, some = kept(numbers), kept(numbers.sample(0.3, by="shop"))
    assert some == {row for row in every if row[0] in {shop for shop, _ in some}}


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan"), "half"])
def test_a_fraction_lies_between_0_and_1(fraction):
    with pytest.raises(DeltamarkError, match="not a fraction"):
        numbers.sample(fraction)
