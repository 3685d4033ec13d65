"""The interpreter: the registry of steps, the code made of it, and the loop that runs the operators of a program."""
