"""Tables, made of records alone by SQL."""
