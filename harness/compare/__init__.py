"""The regression gate: two commits, measured together. Numbers of other days are neither used nor stored.

A pair is one sample of each side, taken one after the other, each in its own process. Pairs are taken in repetitions:
a repetition takes one pair of every cell and opens both sides anew, and the next one takes the sides in the other
order. Accidents of a process, such as the addresses of its memory or the load of the machine, are therefore part of the
noise that the rule sees, and do not favour one side.

1. Check: the answers of both sides are compared with DuckDB's, and their change streams with each other. Motif counts
   are compared with an independent algorithm's at the end, and with each other after every batch.
2. Screen: SCREEN_PAIRS pairs of every cell. A cell or row is unchanged if its median change is within 2%, and the
   exact 95% interval of the median within twice the tolerance: 5%, or 5 ms or 1 MB if that is more.
3. Confirm: up to CONFIRM_PAIRS fresh pairs of every other cell. A regression is a change whose interval lies above 5%,
   and whose median is not within the tolerance. A cell is unchanged if its interval is within the tolerance. The
   interval is that of the sign test (harness/measure/stats.py).

A row is one query or motif with one workload, over its batchings. It is judged like a cell, by the geometric mean of
its cells.
"""
