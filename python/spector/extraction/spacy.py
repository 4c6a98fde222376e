"""Entities by a pipeline of spaCy (EXT-1, CUSTOM; extra ``spacy``)."""

from __future__ import annotations

import threading
from typing import Any, Final

from spector import arguments
from spector.errors import ConfigurationError
from spector.store.model import Entity
from spector.store.values import MAX_ENTITIES, show

from .protocol import Extraction

__all__ = ["SpacyEntityExtractor"]

#: spaCy's labels as types of TYP-1; any other label is a type of its own (TYP-3).
_TYPES: Final = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "ORG": "ORGANIZATION",
    "NORP": "ORGANIZATION",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "FAC": "LOCATION",
    "PRODUCT": "PRODUCT",
    "EVENT": "EVENT",
    "WORK_OF_ART": "ARTIFACT",
    "LAW": "DOCUMENT",
    "LANGUAGE": "CONCEPT",
    "DATE": "DATE_TIME",
    "TIME": "DATE_TIME",
    "MISC": "OTHER",
}
#: What counts or measures is nothing that memories are joined by.
_LEFT_OUT: Final = frozenset({"CARDINAL", "ORDINAL", "PERCENT", "QUANTITY", "MONEY"})


class SpacyEntityExtractor:
    """Finds what a pipeline's entity recogniser finds.

    Any thread may use it, one at a time. It makes no relations.

    Parameters
    ----------
    pipeline : str or spacy.Language
        The name of an installed pipeline, such as "en_core_web_sm", its folder, or a pipeline.
    max_entities : int
        How many of a text count, in [1, 1000]; the first ones.

    Raises
    ------
    ConfigurationError
        spaCy or the pipeline is not installed, or nothing in it finds entities.

    Examples
    --------
    >>> import spacy  # doctest: +SKIP
    >>> pipeline = spacy.blank("en")  # doctest: +SKIP
    >>> rules = [{"label": "PERSON", "pattern": "Ann Lee"}]  # doctest: +SKIP
    >>> pipeline.add_pipe("entity_ruler").add_patterns(rules)  # doctest: +SKIP
    >>> SpacyEntityExtractor(pipeline).extract("m1", "Ann Lee called").entities  # doctest: +SKIP
    (Entity(name='Ann Lee', type='PERSON', role=None),)
    """

    def __init__(self, pipeline: Any = "en_core_web_sm", max_entities: int = MAX_ENTITIES) -> None:
        self._max_entities = arguments.whole("max_entities", max_entities, 1, 1000)
        self._pipeline = _load(pipeline)
        self._lock = threading.Lock()

    def extract(self, id: str, text: str) -> Extraction:
        """The entities of a text, in its order, each name once."""
        with self._lock:
            found = self._pipeline(text[: self._pipeline.max_length]).ents
        entities: dict[str, Entity] = {}
        for span in found:
            name = " ".join(span.text.split())
            if name and span.label_ not in _LEFT_OUT:
                kind = _TYPES.get(span.label_, span.label_ or "OTHER")
                entities.setdefault(name.casefold(), Entity(name, kind))
        return Extraction(tuple(entities.values())[: self._max_entities])


def _load(pipeline: Any) -> Any:
    if isinstance(pipeline, str):
        try:
            import spacy
        except ImportError:
            raise ConfigurationError(
                'SpacyEntityExtractor needs an extra: pip install "spector[spacy]"'
            ) from None
        try:
            pipeline = spacy.load(pipeline)
        except OSError:
            raise ConfigurationError(
                f"the pipeline {show(pipeline)} is not installed: python -m spacy download"
                f" {pipeline}, or give a folder or a pipeline"
            ) from None
    if not callable(pipeline) or not hasattr(pipeline, "pipe_names"):
        raise ConfigurationError(
            f"pipeline must be the name of one of spaCy's or a pipeline, got {show(pipeline)}"
        )
    finders = [
        name
        for name in pipeline.pipe_names
        if "doc.ents" in (getattr(pipeline.get_pipe_meta(name), "assigns", None) or ())
    ]
    if not finders:
        raise ConfigurationError(
            "pipeline must have a component that finds entities, such as 'ner' or 'entity_ruler',"
            f" got {', '.join(pipeline.pipe_names) or 'none'}"
        )
    return pipeline
