"""Text: its bytes, functions of columns of texts, and the pool of stored texts."""
