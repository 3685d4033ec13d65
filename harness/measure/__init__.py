"""Measuring: cells, sweeps, timing, and the processes in which cells run."""
