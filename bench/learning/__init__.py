"""What learning is worth: see `python -m bench.learning --help`."""
