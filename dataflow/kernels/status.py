"""The statuses that the kernel of an operator returns."""

DONE, NEEDS_ROOM, FAILED, WAITING, FORWARD, BACK = range(6)
"""The slice is processed; a table is too small, and nothing was done; the operator's block describes an error; a
message of another worker is missing, and nothing was done; go on behind the loop; go back to its first operator."""
