"""The history of cells over commits: records from several places, ordered by commit, and the steps in their times."""
