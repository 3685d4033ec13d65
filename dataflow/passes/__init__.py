"""The passes of the compiler: rewriting, pruning, sharing and partitioning; `dataflow.codegen` emits the program."""
