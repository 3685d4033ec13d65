"""Set-up of the development environment: the virtual environment, the locks, and the help of make."""
