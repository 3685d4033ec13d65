"""Kills at random moments, and the laws that hold after them.

A trial starts a command from a known state, sends a signal at a moment drawn from the length of an undisturbed run, and
runs the same command again to its end. The second run must succeed with the result of an undisturbed run, and neither
processes nor files of the first run may remain.
"""
