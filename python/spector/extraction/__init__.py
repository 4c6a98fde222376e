"""Entities and relations out of texts (EXT-1 to EXT-8).

An extractor is an object with ``extract(id, text)``. `RuleEntityExtractor` reads names off the
text itself and needs no model; `SpacyEntityExtractor` runs a pipeline of spaCy;
`LlmEntityExtractor` asks a language model. Each goes to
``SpectorMemory.open(entity_extraction_mode="custom", entity_extractor=...)``; a provider of
generated text with the mode ``"llm"`` is enough for the last.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spector.extraction.answers import Answer, parse
    from spector.extraction.llm import LlmEntityExtractor
    from spector.extraction.openai import GenerationError, OpenAIProvider, Usage
    from spector.extraction.protocol import EntityExtractor, Extraction
    from spector.extraction.rules import RuleEntityExtractor
    from spector.extraction.spacy import SpacyEntityExtractor
    from spector.extraction.worker import ExtractionStats

__all__ = [
    "Answer",
    "EntityExtractor",
    "Extraction",
    "ExtractionStats",
    "GenerationError",
    "LlmEntityExtractor",
    "OpenAIProvider",
    "RuleEntityExtractor",
    "SpacyEntityExtractor",
    "Usage",
    "parse",
]

# Where each name is, imported on first use.
_LAZY = {
    "Answer": "answers",
    "parse": "answers",
    "EntityExtractor": "protocol",
    "Extraction": "protocol",
    "ExtractionStats": "worker",
    "GenerationError": "openai",
    "LlmEntityExtractor": "llm",
    "OpenAIProvider": "openai",
    "RuleEntityExtractor": "rules",
    "SpacyEntityExtractor": "spacy",
    "Usage": "openai",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _LAZY:
        module = importlib.import_module(f"spector.extraction.{_LAZY[name]}")
        value = globals()[name] = getattr(module, name)
        return value
    raise AttributeError(f"module 'spector.extraction' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
