"""Programs under construction: blocks, streams, keys, texts and terms, of which operators are made."""
