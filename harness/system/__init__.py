"""The machine: its clock, its memory and processes, and the facts that records state of it."""
