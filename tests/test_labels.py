"""`check_labels.py` finds what it is for; `make lint` runs it on the specification."""

import pytest

from check_labels import NOT_TESTED, SPECIFICATION, labels_of, named_in, problems

ROWS = """
| Label | Rule |
|---|---|
| ABC-1 | One. |
| B2C-12 | Two, like ABC-9. |

ABC-2: a sentence.

| Label | Folded into | Measured |
|---|---|---|
| ABC-3 | ABC-1 | |

## K. Choices

| K-1 | Why. |
"""


def test_rules_are_rows_and_sentences_but_not_reasons():
    assert labels_of(ROWS) == ["ABC-1", "B2C-12", "ABC-2"]


def test_the_specification_has_rules():
    labels = labels_of(SPECIFICATION.read_text("utf-8"))
    assert len(labels) > 200
    assert {"GEN-1", "BM25-8", "PRO-13", "AM-7", "AM-10", "BUD-8", "MCP-8"} <= set(labels)
    assert not any(label.startswith("K-") for label in labels)
    assert all(NOT_TESTED.values())


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ('"""HEB-7: two, TMP-3."""', {"HEB-7", "TMP-3"}),
        ("# HEB-1 to HEB-3", {"HEB-1", "HEB-2", "HEB-3"}),
        ("COA-1 to STDP-2", {"COA-1", "STDP-2"}),
        ("def test_heb_7_and_bm25_8_x():", {"HEB-7", "BM25-8"}),
        ("def test_per8_the_old():", {"PER-8"}),
        ("xHEB-7 heb-7", set()),
    ],
)
def test_labels_in_tests(text, labels):
    assert named_in(text) == labels


def test_what_is_wrong_is_named():
    assert problems(["A-1", "A-2"], {"A-1"}, {"A-2": "not built"}) == []
    said = problems(["A-1", "A-2", "A-3"], {"A-1"}, {"A-1": "x", "A-3": "", "A-4": "x"})
    assert said == [
        "A-1 is named in a test: take it out of NOT_TESTED",
        "A-2 is named in no test and not listed in NOT_TESTED",
        "A-4 is listed but no rule has it",
        "A-3 is listed without a reason",
    ]
