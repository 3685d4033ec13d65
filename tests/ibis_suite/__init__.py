"""ibis' own tests of backends, run against ours: `make ibis` runs them, and prints what is skipped and why."""
