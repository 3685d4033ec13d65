"""The loops suite: distances over random graphs."""
