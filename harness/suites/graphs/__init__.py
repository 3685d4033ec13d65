"""The graph suite: motifs in static and changing graphs."""
