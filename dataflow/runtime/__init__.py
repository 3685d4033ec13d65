"""Running dataflows: one worker, several workers, several dataflows that are attached and retired while they run."""
