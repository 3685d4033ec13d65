"""Setting up: the virtual environment, the locks, and the help of make."""
