"""The collections, each in one shape: documents as memories, queries with what answers them.

`--data` names the folder that holds one folder for each set (locomo, scifact, cranfield, musique,
2wiki); they are converted from public sources and not part of this project. "musique-entities" is
musique with the entities and triples that a language model drew from each passage.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spector.arguments import fold

SETS = ("locomo", "scifact", "cranfield", "musique", "musique-entities", "2wiki")
_DRAWN = "-entities"


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the grades of the documents that answer it."""

    id: str
    text: str
    category: str
    relevant: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Collection:
    """One space and its questions; `documents` are the arguments of `remember`."""

    name: str
    documents: list[dict[str, Any]]
    queries: list[Query] = field(repr=False)


def load(name: str, data: Path) -> list[Collection]:
    """The collections of one set: a conversation each for locomo, else one."""
    if name == "locomo":
        return [_conversation(path) for path in sorted((data / name).glob("*.memories.jsonl"))]
    return [_passages(name, data / name.removesuffix(_DRAWN))]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return (json.loads(line) for line in text.split("\n") if line)


def _conversation(path: Path) -> Collection:
    documents = []
    for turn in _lines(path):
        when = datetime.fromisoformat(turn["timestamp"]).replace(tzinfo=timezone.utc)
        text = turn["text"]
        if turn.get("image_caption"):
            text += f" [shares {turn['image_caption']}]"
        documents.append(
            {
                "id": turn["id"],
                "text": text,
                "context": f"({when.day} {when:%B %Y}) {turn['speaker']}",
                "session": f"session-{turn['session']}",
                "author": turn["speaker"],
                # The source dates sessions; turns follow each other.
                "timestamp": int(when.timestamp() * 1000) + turn["turn"],
            }
        )
    known = {document["id"] for document in documents}
    queries = [
        Query(
            question["id"],
            question["question"],
            question["category"],
            {turn: 1.0 for turn in question["evidence"] if turn in known},
        )
        for question in _lines(path.with_name(path.name.replace("memories", "queries")))
        if question["category"] != "adversarial"
    ]
    name = f"locomo/{path.name.split('.')[0]}"
    return Collection(name, documents, [query for query in queries if query.relevant])


def _passages(name: str, folder: Path) -> Collection:
    documents = []
    for passage in _lines(folder / "corpus.jsonl.gz"):
        document = {"id": passage["_id"], "text": passage["text"], "context": passage["title"]}
        if name.removesuffix(_DRAWN) in ("musique", "2wiki"):
            document["about"] = [passage["title"]]
        if name.endswith(_DRAWN):
            document["entities"] = [entity for entity in passage["entities"] if entity.strip()]
            document["relations"] = [
                triple
                for triple in passage["triples"]
                if len(triple) == 3
                and all(part.strip() for part in triple)
                and fold(triple[0]) != fold(triple[2])
            ]
        documents.append(document)
    judgements = folder / ("qrels.test.tsv" if name == "scifact" else "qrels.tsv")
    relevant: dict[str, dict[str, float]] = {}
    for line in judgements.read_text("utf-8").splitlines()[1:]:
        query, document_id, grade = line.split("\t")
        if float(grade) > 0:
            relevant.setdefault(query, {})[document_id] = float(grade)
    queries = [
        Query(query["_id"], query["text"], _category(query), relevant[query["_id"]])
        for query in _lines(folder / "queries.jsonl")
        if query["_id"] in relevant
    ]
    return Collection(name, documents, queries)


def _category(query: Mapping[str, Any]) -> str:
    if "hops" in query:
        return f"{query['hops']} hops"
    if "multihop" in query:
        return "multi-hop" if query["multihop"] else "single-hop"
    return "all"
