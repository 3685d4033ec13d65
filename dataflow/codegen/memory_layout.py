"""Sizes of memory that several modules agree on."""

from deltamark.dataflow.kernels.core.guard import CHECKED

UNBOUNDED_WORDS = 1 << 24 if CHECKED else 1 << 31
"""Words of an array of unknown size: address space, not memory. Checked kernels are for small data, and a smaller
reservation lets them detect stray accesses sooner.
"""
