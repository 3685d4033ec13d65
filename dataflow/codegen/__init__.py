"""Code generation: the passes by which plans become a program."""
