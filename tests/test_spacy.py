"""Entities by spaCy (EXT-1, EXT-2), and what is said where it or its pipeline is missing."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from spector import ConfigurationError, SpectorMemory
from spector.extraction import SpacyEntityExtractor


class Pipeline:
    """What of a pipeline is used, over a table of names."""

    max_length = 1000

    def __init__(self, names: dict[str, str], finds: str = "doc.ents") -> None:
        self._names = names
        self.pipe_names = ["ruler"]
        self._finds = finds

    def get_pipe_meta(self, name: str) -> Any:
        return SimpleNamespace(assigns=[self._finds])

    def __call__(self, text: str) -> Any:
        spans = [
            SimpleNamespace(text=name, label_=label, start=text.index(name))
            for name, label in self._names.items()
            if name in text
        ]
        return SimpleNamespace(ents=sorted(spans, key=lambda span: span.start))


NAMES = {"Ann Lee": "PERSON", "Paris": "GPE", "two": "CARDINAL", "Deep\nBlue": "MACHINE"}


def test_labels_become_types() -> None:
    """EXT-2, TYP-3: in the order of the text; numbers are nothing."""
    found = SpacyEntityExtractor(Pipeline(NAMES)).extract(
        "m", "In Paris two met Ann Lee, Deep\nBlue"
    )
    assert [tuple(entity) for entity in found.entities] == [
        ("Paris", "LOCATION", None),
        ("Ann Lee", "PERSON", None),
        ("Deep Blue", "MACHINE", None),
    ]
    few = SpacyEntityExtractor(Pipeline(NAMES), max_entities=1)
    assert len(few.extract("m", "In Paris two met Ann Lee").entities) == 1


def test_a_memory_uses_it() -> None:  # EXT-1, EXT-7
    extractor = SpacyEntityExtractor(Pipeline(NAMES))
    with SpectorMemory.ephemeral(
        entity_extraction_mode="custom", entity_extractor=extractor
    ) as memory:
        memory.remember("Ann Lee called", id="a")
        assert memory.extraction.drain(30)
        assert [one.name for one in memory.inspect("a").entities] == ["Ann Lee"]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:  # EXT-1
    with pytest.raises(ConfigurationError, match="must have a component that finds entities"):
        SpacyEntityExtractor(Pipeline(NAMES, finds="token.tag"))
    with pytest.raises(ConfigurationError, match="must be the name of one of spaCy's"):
        SpacyEntityExtractor(3)
    with pytest.raises(ValueError, match="max_entities"):
        SpacyEntityExtractor(Pipeline(NAMES), max_entities=0)
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigurationError, match=r'pip install "spector\[spacy\]"'):
        SpacyEntityExtractor("en_core_web_sm")


def test_with_spacy_itself() -> None:
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    with pytest.raises(ConfigurationError, match="python -m spacy download no_such_pipeline"):
        SpacyEntityExtractor("no_such_pipeline")
    with pytest.raises(ConfigurationError, match="finds entities"):
        SpacyEntityExtractor(spacy.blank("en"))
    pipeline = spacy.blank("en")
    rules = [{"label": "PERSON", "pattern": "Ann Lee"}, {"label": "MONEY", "pattern": "$5"}]
    pipeline.add_pipe("entity_ruler").add_patterns(rules)
    found = SpacyEntityExtractor(pipeline).extract("m1", "Ann Lee paid $5, said Ann Lee")
    assert [tuple(entity) for entity in found.entities] == [("Ann Lee", "PERSON", None)]
