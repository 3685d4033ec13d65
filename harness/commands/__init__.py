"""One module a command: its docstring is its help, options(parser) its settings, run(chosen) its exit code."""
