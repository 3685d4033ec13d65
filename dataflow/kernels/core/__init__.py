"""The base of all kernels: memory, declared blocks, intrinsics, checks, and the cache of compiled code."""
