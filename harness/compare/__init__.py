"""The regression gate: two commits, measured together. No number of another day takes part, and none is kept.

A pair is one sample of each side, taken one after the other, each in a process of its own, and in the other order in
the next turn. All cells take part in a turn, and both sides are opened anew for each: what a process got by chance
(where its memory lies, who else runs) is then part of the noise that the rule sees, not of one side.

1. Check: both sides' answers are compared with DuckDB's, and their change streams with each other; counts of motifs
   with those by hand, and after every batch with each other.
2. Screen: SCREEN pairs a cell. A cell or row whose median is within 2% is unchanged.
3. Confirm: up to CONFIRM fresh pairs of the others. A regression is one whose exact 95% interval of the median lies
   above 5%; the interval is that of the sign test (harness/measure/stats.py).

A row, which is one query or motif and workload over its batchings, is judged like a cell, by the geometric mean of its
cells.
"""
