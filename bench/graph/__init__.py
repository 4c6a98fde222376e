"""The cognitive graph's stores measured: see `python -m bench.graph --help`."""
