"""Running dataflows: workers, threads, feeds, and plans that are attached and retired while they run."""
