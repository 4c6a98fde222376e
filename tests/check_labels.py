"""Every label of docs/specification.md is named in a test, or is listed here with a reason.

    python tests/check_labels.py        # also part of `make lint`

A label counts as named where a file of tests has it (`HEB-7`, also `HEB-1 to HEB-12`) or a test is
called by it (`test_heb_7_...`). A label that is listed here and named all the same is an error too:
whoever writes the first test of a rule takes its line out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPECIFICATION = ROOT / "docs" / "specification.md"

#: Rules without a test: not built, or not of a kind that a test can show.
NOT_TESTED = {
    "AM-9": "how defaults are chosen: docs/quality.md has the figures and the command",
}

_ROW = re.compile(r"^\| ([A-Z][A-Z0-9]*-[0-9]+) \|", re.MULTILINE)
_SENTENCE = re.compile(r"^([A-Z][A-Z0-9]*-[0-9]+): ", re.MULTILINE)
_NAMED = re.compile(r"\b([A-Z][A-Z0-9]*)-([0-9]+)(?: to \1-([0-9]+)\b)?")
_CALLED = re.compile(r"\bdef (test_\w+)")
_IN_NAME = re.compile(r"(?<=_)(?:([a-z]+[0-9]*)_|([a-z]+))([0-9]+)(?=_|$)")
_RULES = re.compile(r"^## K\. .*", re.MULTILINE | re.DOTALL)
#: Rows of section J that say into which rule a decision was folded.
_FOLDED = re.compile(r"^\| Label \| Folded into \|.*?\n\n", re.MULTILINE | re.DOTALL)


def labels_of(specification: str) -> list[str]:
    """The rules, in their order: not the reasons of section K, nor what was folded into others."""
    rules = _FOLDED.sub("\n", _RULES.sub("", specification))
    return list(dict.fromkeys([*_ROW.findall(rules), *_SENTENCE.findall(rules)]))


def named_in(text: str) -> set[str]:
    """The labels that a file of tests names."""
    found: set[str] = set()
    for prefix, first, last in _NAMED.findall(text):
        numbers = range(int(first), int(last or first) + 1)
        found.update(f"{prefix}-{number}" for number in numbers)
    for name in _CALLED.findall(text):
        for parted, joined, number in _IN_NAME.findall(name):
            found.add(f"{(parted or joined).upper()}-{number}")
    return found


def problems(labels: Iterable[str], named: set[str], listed: dict[str, str]) -> list[str]:
    """What is wrong, one line each."""
    known = list(labels)
    found = []
    for label in known:
        if label in named and label in listed:
            found.append(f"{label} is named in a test: take it out of NOT_TESTED")
        elif label not in named and label not in listed:
            found.append(f"{label} is named in no test and not listed in NOT_TESTED")
    found.extend(f"{label} is listed but no rule has it" for label in listed if label not in known)
    found.extend(f"{label} is listed without a reason" for label in listed if not listed[label])
    return found


def test_files() -> list[Path]:
    """The files that may name labels."""
    folder = ROOT / "tests"
    files = [*folder.rglob("*.py"), *folder.rglob("*.cpp"), *folder.rglob("*.hpp")]
    return [path for path in files if path.name not in ("check_labels.py", "test_labels.py")]


def main() -> int:
    """Print what is listed and what is wrong."""
    labels = labels_of(SPECIFICATION.read_text("utf-8"))
    named: set[str] = set()
    for path in test_files():
        named |= named_in(path.read_text("utf-8"))
    wrong = problems(labels, named, NOT_TESTED)
    for label, reason in NOT_TESTED.items():
        print(f"{label:8} {reason}")
    print(
        f"{len(labels)} rules: {sum(label in named for label in labels)} named in tests, ", end=""
    )
    print(f"{len(NOT_TESTED)} listed without")
    for line in wrong:
        print(f"check_labels: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
