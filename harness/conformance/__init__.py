"""Small cases that show what an external engine may claim: see docs/protocol.md."""
