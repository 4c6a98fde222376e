"""libFuzzer on what reads the answers of language models, which is Python, through atheris (R11).

tests/fuzz/run calls it with the arguments of libFuzzer. No answer may raise; what was read comes
back when it is written as JSON; `cleaned` takes all of it; nothing takes long (-timeout).
"""

from __future__ import annotations

import json
import sys

import atheris

with atheris.instrument_imports(include=["spector.extraction.answers", "json"]):
    from spector.extraction.answers import parse
from spector.extraction.protocol import MAX_ENTITIES, cleaned


def one_input(data: bytes) -> None:
    """What libFuzzer calls with each input."""
    answer = parse(data.decode("utf-8", "surrogateescape"))
    if answer.malformed:
        assert not answer.entities and not answer.relations
    found = cleaned(answer)
    assert len(found.entities) <= MAX_ENTITIES + 2 * len(found.relations)
    again = {"entities": answer.entities, "relations": answer.relations}
    # As texts: NaN is not equal to itself.
    assert repr(parse(json.dumps(again))[:2]) == repr(answer[:2])


atheris.Setup(sys.argv, one_input)
atheris.Fuzz()
