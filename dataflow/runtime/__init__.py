"""Running dataflows: workers, processes, feeds, and plans that are attached and retired while they run."""
