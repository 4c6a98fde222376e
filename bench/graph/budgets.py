"""Live bytes of all stores for so many memories, beside the budgets (BUD-1 to BUD-7).

Each memory has two edges, three tags and a place in a chain; there are as many entities, each with
a link, and half as many hyperedges of 3 to 8 members. Room that lists have for their next entries,
names and the tables that find them are not part of the budgets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from bench.graph import generators
from bench.graph.records import Record, result
from spector.graph import (
    CrossCapture,
    EntityDirectory,
    HebbianGraph,
    HyperGraph,
    TagCoActivation,
    TemporalChain,
)

MB = 1e6
# In MB, for 100,000 and 1,000,000 memories.
BUDGETS: dict[str, tuple[float, float]] = {
    "BUD-1 Hebbian": (2.8, 28),
    "BUD-2 co-activation": (1, 1),
    "BUD-3 cross-capture": (5, 50),
    "BUD-4 entity directory": (7.2, 72),
    "BUD-5 hyperedges": (5, 50),
    "BUD-6 temporal": (1.6, 16),
    "BUD-7 all": (23, 217),
}
SLACK = 1.15


def measured(n: int) -> dict[str, int]:
    """Bytes by label for n memories."""
    hebbian = HebbianGraph()
    hebbian.resize(n)
    hebbian.strengthen_many(*generators.pairs(n, n))
    hebbian.compact()

    contexts = generators.tag_contexts(min(n, 20_000))
    counts = TagCoActivation()
    counts.observe_many(contexts)
    captured = CrossCapture()
    captured.add_many(np.arange(n), (contexts * (n // len(contexts) + 1))[:n])
    tags = captured.memory_usage()

    directory = EntityDirectory()
    directory.intern(generators.entity_names(n), generators.entity_types(n))
    directory.link(np.arange(n), np.arange(n))
    directory.compact_adjacency()
    entities = directory.memory_usage()

    events = generators.hyperedges(n // 5, n // 2)
    hyper = HyperGraph()
    numbers = np.arange(n // 2)
    hyper.add_many(
        0, events.indptr, events.entities, events.roles, numbers, numbers, events.weights
    )
    edges = hyper.memory_usage()

    chain = TemporalChain(n)
    chain.link(*generators.chain_links(n))

    bytes_of = dict(
        zip(
            BUDGETS,
            (
                hebbian.memory_usage(),
                counts.memory_usage()["tables"],
                tags["slots"] + tags["tags"],
                entities["nodes"] + entities["links"] + entities["dead"],
                edges["nodes"] + edges["vertices"] + edges["incidence"],
                chain.memory_usage()["records"],
            ),
            strict=False,
        )
    )
    return bytes_of | {"BUD-7 all": sum(bytes_of.values())}


def run(options: argparse.Namespace) -> Iterator[Record]:
    for name, n_bytes in measured(options.nodes).items():
        few, many = BUDGETS[name]
        target = {100_000: few, 1_000_000: many}.get(options.nodes)
        yield result(
            "budgets", name, n_bytes / MB, "MB",
            target=None if target is None else round(SLACK * target, 2),
        )  # fmt: skip
