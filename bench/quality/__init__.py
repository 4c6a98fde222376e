"""How good the answers are, on public collections: `python -m bench.quality`."""
