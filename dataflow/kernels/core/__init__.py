"""Memory and general data structures: hash tables, a B+-tree, sorted lists, texts."""
