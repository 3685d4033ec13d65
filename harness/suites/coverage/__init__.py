"""The suite of coverage: which queries each engine maintains, and how consistent its answers are."""
