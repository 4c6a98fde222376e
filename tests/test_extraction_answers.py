"""Answers of language models, however they are wrapped (EXT-4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spector.extraction import parse
from spector.extraction.protocol import cleaned

ANN = {"name": "Ann", "type": "PERSON"}
FACT = {"source": "Ann", "type": "KNOWS", "target": "Bob"}
WHOLE = {"entities": [ANN], "relations": [FACT]}
PLAIN = json.dumps(WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        json.dumps(WHOLE, indent=2),
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}\n```\n",
        f"Sure, here is the JSON:\n\n{PLAIN}\n\nLet me know if you need more.",
        f'<think>The note says {{nothing}} of {{"entities": [1]}}</think>\n{PLAIN}',
        f"<Thinking>hm</Thinking><think>x</think>{PLAIN}",
        f"I see. </think> {PLAIN}",
        f"{PLAIN}\n<think>was that right?</think>",
        f'{{}} {{"schema": {{"entities": []}}}} {PLAIN}',
        PLAIN + PLAIN.replace("Ann", "Zoe"),
        f"{PLAIN} }} ]",
        str(WHOLE),
        f"{str(WHOLE)[:-1]},}}",
        PLAIN.replace("}]", "},]").replace("]}", "],}"),
        PLAIN.replace('"', "'"),
        PLAIN[:-1] + ', "confidence": 0.5, "notes": null, "more": [true, {"a": 1e5}]}',
        "\ufeff" + PLAIN,
    ],
)
def test_the_first_object_counts_however_it_is_wrapped(text: str) -> None:
    """EXT-4: fences, reasoning, sentences, single quotes, trailing commas, unknown keys."""
    answer = parse(text)
    assert not answer.malformed
    assert cleaned(answer) == cleaned(WHOLE)


@pytest.mark.parametrize(
    ("text", "entities", "relations"),
    [
        ('{"entities": []}', [], []),
        ('{"relations": [1]}', [], [1]),
        ('{"entities": ["Ann"], "relations": "none"}', ["Ann"], []),
        ('{"entities": {"name": "x"}, "relations": []}', [], []),
        ("{'entities': [{'name': \"O'Brien\"}, {'name': 'O'Neil'}]}",
         [{"name": "O'Brien"}, {"name": "O'Neil"}], []),
        ('{"entities": [{"name": "a\\u00e9\\n\\"b\\""},]}', [{"name": 'aé\n"b"'}], []),
        ("{'entities': [{'name': 'a\\u00e9\\'b'}, True, None, -1.5]}",
         [{"name": "aé'b"}, True, None, -1.5], []),
    ],
)  # fmt: skip
def test_what_is_in_it(text: str, entities: list[Any], relations: list[Any]) -> None:
    assert parse(text) == (entities, relations, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "I found no entities.",
        PLAIN[:-10],  # truncated
        PLAIN[: len(PLAIN) // 2],
        '{"entities": 5}',
        '{"entities": {"a": 1}}',
        '{"people": ["Ann"]}',
        '[{"name": "Ann"}]',
        "null",
        '"entities"',
        "{entities: [Ann]}",
        "<think>only thoughts</think>",
        "ENTITY: ",
        "RELATION: Ann | KNOWS",
        "entity Ann",
        "{" * 1000,
        '{"entities": ' + "[" * 100_000,
        '{"a":' * 50_000,
        "{'" * 50_000,
        "<think>" * 20_000 + "</x>",
        "\n" * 100_000,
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    """EXT-4: no entities, nothing raised."""
    assert parse(text) == ([], [], True)


def test_lines_are_a_fallback() -> None:
    """EXT-4: ENTITY: and RELATION: with vertical bars; an object is preferred."""
    text = """Here they are:
    ENTITY: Ann | PERSON | AGENT
    - ENTITY: Alpha|PROJECT
    2. ENTITY: Oslo
    * RELATION: Ann | MANAGES | Alpha | surely
    RELATION: Ann | MANAGES
    RELATION:  | X | Y
    ENTITY Bob
    """
    assert parse(text) == (
        [["Ann", "PERSON", "AGENT"], ["Alpha", "PROJECT"], ["Oslo"]],
        [["Ann", "MANAGES", "Alpha"]],
        False,
    )
    assert cleaned(parse(text)).entities[2].type == "OTHER"
    assert parse(text + PLAIN).entities == [ANN]
    assert parse(f"<think>{text}</think>").malformed


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    """EXT-4: nothing raised; malformed exactly where there is nothing."""
    for each in (text, PLAIN[: len(text)] + text, "{'entities': [" + text, "<think>" + text):
        answer = parse(each)
        assert isinstance(answer.entities, list)
        assert isinstance(answer.relations, list)
        if answer.malformed:
            assert not answer.entities and not answer.relations
        cleaned(answer)


@given(
    entities=st.lists(json_values, max_size=4),
    relations=st.lists(json_values, max_size=4),
    before=st.text(st.characters(exclude_characters="{<"), max_size=20),
    after=st.text(st.characters(exclude_characters="<"), max_size=20),
    indent=st.sampled_from([None, 1]),
)
def test_json_comes_back_as_it_was(
    entities: list[Any], relations: list[Any], before: str, after: str, indent: int | None
) -> None:
    """EXT-4."""
    whole = {"entities": entities, "relations": relations}
    text = before + json.dumps(whole, indent=indent) + after
    assert parse(text) == (entities, relations, False)


@given(entities=st.lists(json_values, max_size=4))
def test_python_literals_are_read_as_what_they_mean(entities: list[Any]) -> None:
    """EXT-4: single quotes and constants of Python, where no quote is in doubt."""
    text = str({"entities": entities})
    answer = parse(text)
    if "\\" not in text and '"' not in text:
        assert answer == (entities, [], False)
