"""The interpreter: the loop that runs the operators of a program, and the compilation of all kernels before it runs."""
