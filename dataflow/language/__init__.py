"""The language of queries: collections, expressions, loops and motifs."""
