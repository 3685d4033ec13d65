"""One module an operator: the blocks that it appends to a program, and the state behind them."""
