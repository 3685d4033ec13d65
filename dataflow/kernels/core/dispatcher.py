"""The decorators of kernels: `kernel` compiles a function, and `inline` inserts it into the kernels that call it."""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, error_model="numpy")
"""Compile a function as a kernel, which other kernels and Python can call. The compiled code is cached on disk.

Integers wrap, as in C; kernels check for overflow where it can happen.
"""

inline = njit(cache=True, error_model="numpy", inline="always")
"""Insert a function into each kernel that calls it."""
