"""The memory suite: the least memory in which a cell passes."""
