"""Quality of recall on public collections (AM-9).

    python -m bench.quality --data DIR --sets locomo,scifact [--config NAME]... [--models]

Without `--models` only what needs no model is run. Prints one JSON line for each set and
configuration, then a table; `delta` is the difference of each figure from the configuration
`default`, with a bootstrap 95% interval over queries.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spector import SpectorMemory
from spector.encoding import Models

from .measures import MEASURES, cross_fit, interval, measure
from .sets import SETS, Collection, load
from .vectors import Cache, CachedMiniLM, CachedSplade

Ranking = Callable[[SpectorMemory, str], list[str]]
DEPTH = 20

Config = tuple[frozenset[str], dict[str, Any]]
ALL_MODELS = frozenset({"dense", "sparse", "tokens"})
#: A control: the sessions, authors and names of the memories are dealt out anew among them.
RANDOM = "random graph"
LAYERS = (
    "about",
    "mention",
    "entity",
    "hyperedge",
    "temporal",
    "hebbian",
    "author",
    "cross_capture",
)

#: Lists without the graph: which models take part, and the options of the recall.
LISTS: dict[str, Config] = {
    "lists only": (ALL_MODELS, {}),
    "keywords": (frozenset(), {"text_search_mode": "keyword_only"}),
    "keywords, hybrid": (frozenset(), {}),
    "dense": (
        frozenset({"dense"}),
        {"text_search_mode": "vector_only", "scoring_mode": "similarity"},
    ),
    "sparse": (frozenset({"sparse"}), {"text_search_mode": "splade"}),
    "late": (frozenset({"tokens"}), {"gamma": 0}),
    "keywords + dense": (frozenset({"dense"}), {}),
    "keywords + dense, rrf 60": (frozenset({"dense"}), {"fusion": "rrf"}),
    "keywords + dense, rrf 10": (frozenset({"dense"}), {"fusion": "rrf", "rrf_k": 10}),
    "keywords + sparse": (frozenset({"sparse"}), {}),
    "keywords + late": (frozenset({"tokens"}), {}),
    "three": (frozenset({"dense", "sparse"}), {}),
    "three, rrf 60": (frozenset({"dense", "sparse"}), {"fusion": "rrf"}),
    "three, rrf 10": (frozenset({"dense", "sparse"}), {"fusion": "rrf", "rrf_k": 10}),
    "four, rrf 10": (
        frozenset({"dense", "sparse", "tokens"}),
        {"fusion": "rrf", "rrf_k": 10},
    ),
    "three, late reranks": (
        frozenset({"dense", "sparse", "tokens"}),
        {"late_interaction": "rerank", "reranker_depth": 50},
    ),
}
CONFIGS: dict[str, Config] = {
    "default": (ALL_MODELS, {}),
    **{
        name: (models, {"graph_expansion": False, **options})
        for name, (models, options) in LISTS.items()
    },
    **{f"without {layer}": (ALL_MODELS, {"graph_weights": {layer: 0}}) for layer in LAYERS},
    RANDOM: (ALL_MODELS, {}),
}


def run(
    collections: Sequence[Collection],
    models: Models,
    configs: Mapping[str, tuple[frozenset[str], dict[str, Any]]],
    open_options: Mapping[str, Any],
) -> dict[str, dict[str, list[float]]]:
    """All measures of all queries for each configuration."""
    found: dict[str, dict[str, list[float]]] = {
        name: {key: [] for key in (*MEASURES, "ms")} for name in configs
    }
    for collection, dealt in itertools.product(collections, (False, True)):
        chosen = {name: config for name, config in configs.items() if (name == RANDOM) == dealt}
        if not chosen:
            continue
        with SpectorMemory.ephemeral(
            embedding_provider=models.dense,
            sparse_encoder=models.sparse,
            token_encoder=models.tokens,
            **open_options,
        ) as memory:
            documents = collection.documents
            memory.remember_many(_deal(documents) if dealt else documents)
            for name, (wanted, options) in chosen.items():
                # What a memory opened with fewer models would answer.
                memory._models = dataclasses.replace(
                    models,
                    **{kind: None for kind in ("dense", "sparse", "tokens") if kind not in wanted},
                )
                for query in collection.queries:
                    start = time.process_time()
                    hits = memory.recall(query.text, k=DEPTH, recall_mode="observe", **options)
                    spent = time.process_time() - start
                    for key, value in measure([hit.id for hit in hits], query.relevant).items():
                        found[name][key].append(value)
                    found[name]["ms"].append(spent * 1000)
    return found


def _deal(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The documents with what joins them taken from another one each."""
    order = np.random.default_rng(0).permutation(len(documents))
    joins = ("session", "author", "about", "entities", "relations")
    return [
        {name: value for name, value in document.items() if name not in joins}
        | {name: documents[other][name] for name in joins if name in documents[other]}
        for document, other in zip(documents, order, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", default=",".join(SETS), help="which of them, by commas")
    parser.add_argument("--config", action="append", choices=list(CONFIGS), help="only these")
    parser.add_argument("--models", action="store_true", help="with the built-in models")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/spector/quality")
    parser.add_argument(
        "--cross-fit",
        action="store_true",
        help="also choose among the configurations by five-fold cross-fitting (AM-23)",
    )
    parser.add_argument("--open", type=json.loads, default={}, help="options of open, as JSON")
    chosen = parser.parse_args(arguments)
    cache = Cache(chosen.cache)
    minilm = CachedMiniLM(cache)
    models = Models(minilm, CachedSplade(cache), minilm) if chosen.models else Models()
    configs = {
        name: config
        for name, config in CONFIGS.items()
        if (not chosen.config or name in chosen.config)
        and (chosen.models or not config[0] or config[0] == ALL_MODELS)
    }
    rows = []
    for name in chosen.sets.split(","):
        collections = load(name, chosen.data)
        found = run(collections, models, configs, chosen.open)
        if chosen.cross_fit:
            choices = {key: value for key, value in found.items() if key != RANDOM}
            fitted, taken = cross_fit(choices)
            ms = found["default"]["ms"] if "default" in found else [0.0]
            found["cross-fitted"] = {**fitted, "ms": ms}
            print(json.dumps({"set": name, "folds won": taken}), flush=True)
        for config, values in found.items():
            record: dict[str, Any] = {"set": name, "config": config, "n": len(values["mrr"])}
            for key in MEASURES:
                record[key] = round(float(np.mean(values[key])), 4)
            record["ms"] = round(float(np.median(values["ms"])), 3)
            if config != "default" and "default" in found:
                record["delta"] = {
                    key: [
                        round(part, 4)
                        for part in interval(
                            np.subtract(values[key], found["default"][key], dtype=np.float64)
                        )
                    ]
                    for key in MEASURES
                }
            print(json.dumps(record), flush=True)
            rows.append(record)
    width = max(len(row["config"]) for row in rows)
    print(f"{'set':9} {'configuration':{width}} " + " ".join(f"{key:>8}" for key in MEASURES))
    for row in rows:
        figures = " ".join(f"{row[key]:8.3f}" for key in MEASURES)
        print(f"{row['set']:9} {row['config']:{width}} {figures}")


if __name__ == "__main__":
    sys.exit(main())
