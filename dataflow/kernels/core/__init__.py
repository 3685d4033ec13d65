"""What all kernels are made of: memory, declared blocks, intrinsics, checks, and the cache of compiled code."""
