"""Detection of loops that never end because their rows repeat.

The rows of an iteration follow from those of the iteration before. So an epoch never ends if its rows equal those of an
earlier iteration and differ from those of an iteration in between. Iterations are compared by sums of hashes of their
rows: each with a reference iteration, which moves on after longer and longer spans.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.mixing import GOLDEN


class CycleDetector(Block):
    """The hashes of all iterations, and the iteration with which later ones of the epoch are compared."""

    digests: Array
    """For each iteration the sum of the hashes of the rows that it adds, over all epochs."""
    min_iterations: int
    """The number of iterations before the rows of an epoch are compared."""
    iteration: int = 0
    """The current iteration."""
    iterations: int = 0
    """The number of iterations of the epoch so far."""
    digest: int = 0
    """The sum of the first `digested` digests, which is that of all rows of the iteration."""
    digested: int = 0
    reference: int = 0
    """The digest of the reference iteration, after which others are compared with it."""
    reference_at: int = 0
    """The value of `iterations` at the reference iteration."""
    span: int = 0
    """The number of iterations before a new reference is taken."""
    has_changed: int = 0
    """Whether any digest since the reference iteration differed from its own."""


@kernel
def begin_iteration(detector: CycleDetector, iteration: int) -> int:
    """Move on to an iteration, whose rows are complete; return the period of the cycle that it ends, else 0."""
    count, min_iterations = detector.iterations + 1, detector.min_iterations
    detector.iteration = iteration
    detector.iterations = count
    if count < min_iterations:
        return 0
    digest, reference, has_changed = detector.digest, detector.reference, detector.has_changed
    for each in range(detector.digested + 1, iteration + 1):
        digest += detector.digests[each]
        has_changed |= digest != reference
    detector.digested = iteration
    detector.digest = digest
    detector.has_changed = has_changed
    period = count - detector.reference_at
    if count > min_iterations and has_changed != 0 and digest == reference:
        return period
    if count == min_iterations or period >= detector.span:
        detector.span = min_iterations if count == min_iterations else 2 * detector.span
        detector.reference = digest
        detector.reference_at = count
        detector.has_changed = 0
    return 0


@inline
def hash_of(key: int, value: int) -> int:
    """Return the hash of a row, which a digest contains as many times as its weight."""
    mixed = (key ^ (key >> 32)) * GOLDEN
    mixed = (mixed ^ (mixed >> 29) ^ value) * GOLDEN
    return (mixed ^ (mixed >> 32)) * GOLDEN


@kernel
def end_epoch(detector: CycleDetector) -> None:
    """Prepare for the next epoch."""
    detector.iteration = 0
    detector.iterations = 0
    detector.digest = 0
    detector.digested = 0
