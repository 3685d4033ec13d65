"""One file an operator: how it becomes blocks of a program, and the state behind them."""
