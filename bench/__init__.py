"""Benchmarks: each module is a command, `python -m bench.NAME`."""
