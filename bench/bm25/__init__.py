"""BM25 beside its peers: see `python -m bench.bm25 --help`."""
