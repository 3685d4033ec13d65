"""Kills at random moments, and the laws that hold after them.

A trial starts a command from a known state, strikes it with a signal at a moment drawn from the length of an unharmed
run, and runs the same command again to its end. The second run must end well, its result must be that of an unharmed
run, and neither processes nor files may be left of the first one.
"""
