"""The operators, one module each: nodes, what the passes must know of them, blocks, state and errors."""
