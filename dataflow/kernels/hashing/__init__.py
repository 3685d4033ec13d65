"""Hash tables: the map of keys to ids, tables of hashed slots, and the interner of keys of several columns."""
