"""Writes cpp/lexical/unicode_tables.cpp from Python's `unicodedata`.

The committed tables are those of one Unicode version, so the interpreter must carry exactly that
version (Python 3.13 does). Nothing is downloaded.

    python3.13 tools/make_unicode_tables.py          # write the file
    python3.13 tools/make_unicode_tables.py --check  # fail if the committed file differs
    python3.13 tools/make_unicode_tables.py --digests  # the constants of tests/cpp/test_unicode.cpp
"""

from __future__ import annotations

import argparse
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

UNICODE_VERSION = "15.1.0"
OUTPUT = Path(__file__).resolve().parents[1] / "cpp" / "lexical" / "unicode_tables.cpp"
CODE_POINTS = 0x110000
HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)

# CharClass in unicode.hpp.
OTHER, MARK, DIGIT, UPPER, LOWER, LETTER, CJK, HANGUL, THAI = range(9)

# Flags in unicode.hpp.
STABLE, COMPOSES_BACK, ACCENT_BASE, WHITE_SPACE, IGNORABLE, MAPPED = (1 << i for i in range(6))

# White_Space and the ignorable characters are short closed lists that `unicodedata` does not offer.
WHITE_SPACES = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
WHITE_SPACES |= {*range(0x09, 0x0E), *range(0x2000, 0x200B)}
# Soft hyphen, ZWNJ, ZWJ, word joiner, BOM and the variation selectors: invisible inside a word.
IGNORABLES = {0xAD, 0x200C, 0x200D, 0x2060, 0xFEFF}
IGNORABLES |= {0x180B, 0x180C, 0x180D, 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}

HAN_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ",
    "HANGZHOU ",
    "VERTICAL IDEOGRAPHIC ITERATION MARK",
    "VERTICAL KANA REPEAT ",
    "MASU MARK",
)
KANA_NAMES = ("HIRAGANA ", "KATAKANA ", "KATAKANA-HIRAGANA ", "HENTAIGANA ")
ACCENT_NAMES = ("LATIN ", "GREEK ", "CYRILLIC ")


def char_class(char: str) -> int:
    """Return the class of one character; the scripts without spaces are classes of their own."""
    category = unicodedata.category(char)
    if category[0] == "M":
        return MARK
    if category[0] not in "LN":
        return OTHER
    name = unicodedata.name(char, "")
    if name.startswith(HAN_NAMES + KANA_NAMES):
        return CJK
    if name.startswith("HANGUL "):
        return HANGUL
    if name.startswith("THAI ") and category[0] == "L":
        return THAI
    if category[0] == "N":
        return DIGIT
    return {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER}.get(category, LETTER)


def compositions() -> dict[tuple[int, int], int]:
    """Return (first, second) -> composed for every canonical composition except Hangul."""
    pairs = {}
    for code in range(CODE_POINTS):
        char = chr(code)
        decomposition = unicodedata.decomposition(char).split()
        if len(decomposition) != 2 or decomposition[0].startswith("<"):
            continue
        if unicodedata.normalize("NFC", char) == char:  # else it is excluded from composition
            pairs[int(decomposition[0], 16), int(decomposition[1], 16)] = code
    return pairs


class Pool:
    """Sequences of code points, each stored once as its length followed by its content."""

    def __init__(self) -> None:
        self.values: list[int] = [0]  # position 0 means "maps to itself"
        self._positions: dict[str, int] = {}

    def position(self, text: str) -> int:
        if text not in self._positions:
            self._positions[text] = len(self.values)
            self.values += [len(text), *map(ord, text)]
        return self._positions[text]


def two_stage(values: Sequence[int], shift: int) -> tuple[list[int], list[int]]:
    """Return block numbers and the concatenated distinct blocks of 2**shift values."""
    size = 1 << shift
    blocks: dict[tuple[int, ...], int] = {}
    stage1 = [
        blocks.setdefault(tuple(values[i : i + size]), len(blocks))
        for i in range(0, CODE_POINTS, size)
    ]
    return stage1, [value for block in blocks for value in block]


def array(name: str, type_name: str, values: Sequence[int]) -> str:
    """Return the C++ definition of one array, wrapped at 100 columns."""
    lines = []
    line = ""
    for value in values:
        item = f"{value},"
        if len(line) + len(item) > 98:
            lines.append("  " + line)
            line = ""
        line += item
    lines.append("  " + line)
    body = "\n".join(lines)
    return f"const {type_name} {name}[{len(values)}] = {{\n{body}\n}};\n"


def generate() -> str:
    """Return the content of unicode_tables.cpp."""
    pairs = compositions()
    seconds = {second for _, second in pairs}
    hangul_tail = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    pool = Pool()
    records: dict[tuple[int, int, int], int] = {}
    properties, decompositions, foldings = [], [], []
    for code in range(CODE_POINTS):
        char = chr(code)
        surrogate = 0xD800 <= code <= 0xDFFF  # never decoded
        nfkd = char if surrogate else unicodedata.normalize("NFKD", char)
        nfkc = char if surrogate else unicodedata.normalize("NFKC", char)
        folded = char if surrogate else char.casefold()
        hangul = code in HANGUL_SYLLABLES  # decomposed by arithmetic
        combining = unicodedata.combining(char)
        kind = char_class(char)
        composes_back = code in seconds or code in hangul_tail
        flags = 0
        if combining == 0 and nfkc == char and not composes_back:
            flags |= STABLE
        if composes_back:
            flags |= COMPOSES_BACK
        name = unicodedata.name(char, "")
        if (kind in (UPPER, LOWER, LETTER) and name.startswith(ACCENT_NAMES)) or "0" <= char <= "9":
            flags |= ACCENT_BASE
        if code in WHITE_SPACES:
            flags |= WHITE_SPACE
        if code in IGNORABLES:
            flags |= IGNORABLE
        if (nfkd != char and not hangul) or folded != char:
            flags |= MAPPED
        # What the analyzer's fold relies on: it folds clusters of a base and its marks one by one,
        # and has one table of decompositions for both the compatibility and the canonical one.
        assert not composes_back or kind == MARK or code in hangul_tail, hex(code)
        assert combining == 0 or kind == MARK, hex(code)
        if nfkc == char:
            for part in folded:
                assert unicodedata.normalize("NFD", part) == unicodedata.normalize("NFKD", part)
        properties.append(records.setdefault((kind, combining, flags), len(records)))
        decompositions.append(pool.position(nfkd) if nfkd != char and not hangul else 0)
        foldings.append(pool.position(folded) if folded != char else 0)
    assert len(records) < 256
    assert len(pool.values) < 65536

    out = [
        f"// Unicode {UNICODE_VERSION}, written by tools/make_unicode_tables.py; do not edit.\n"
        '#include "lexical/unicode_tables.hpp"\n\n'
        "namespace spector::unicode_tables {\n\n// clang-format off\n"
    ]
    rows = "\n".join(f"  {{CharClass({kind}),{ccc},{flags}}}," for kind, ccc, flags in records)
    out.append(f"const CharProperties kRecords[{len(records)}] = {{\n{rows}\n}};\n")
    for name, values, type_name in (
        ("Property", properties, "std::uint8_t"),
        ("Decomposition", decompositions, "std::uint16_t"),
        ("Folding", foldings, "std::uint16_t"),
    ):
        stage1, stage2 = two_stage(values, 6)
        width = "std::uint8_t" if max(stage1) < 256 else "std::uint16_t"
        out.append(array(f"k{name}Stage1", width, stage1))
        out.append(array(f"k{name}Stage2", type_name, stage2))
    out.append(array("kPool", "std::uint32_t", pool.values))
    ordered = sorted(pairs.items())
    out.append(f"const std::size_t kCompositions = {len(ordered)};")
    keys = [first << 32 | second for (first, second), _ in ordered]
    out.append(array("kComposeKey", "std::uint64_t", keys))
    out.append(array("kComposeResult", "std::uint32_t", [composed for _, composed in ordered]))
    out.append("// clang-format on\n\n}  // namespace spector::unicode_tables\n")
    return "\n".join(out)


def fnv1a(texts: Iterable[str]) -> int:
    """Return the 64-bit FNV-1a hash of the texts as UTF-8, each followed by a zero byte."""
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\0":
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def random_strings() -> Iterator[str]:
    """Yield 20,000 strings of characters that normalisation and case folding touch.

    The C++ test draws the same ones from the same generator.
    """
    every = [chr(code) for code in range(CODE_POINTS) if not 0xD800 <= code <= 0xDFFF]
    joining = [c for c in every if unicodedata.combining(c) or 0x1100 <= ord(c) <= 0x11FF]
    mapped = [c for c in every if unicodedata.normalize("NFKD", c) != c or c.casefold() != c]
    pools = (joining, mapped)
    state = 1

    def below(n: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (state >> 33) % n

    for _ in range(20_000):
        chosen = [pools[below(2)] for _ in range(1 + below(12))]
        yield "".join(pool[below(len(pool))] for pool in chosen)


def print_digests() -> None:
    """Print hashes of what `unicodedata` makes of every code point and of the random strings."""
    every = [chr(code) for code in range(CODE_POINTS) if not 0xD800 <= code <= 0xDFFF]
    for name, texts in (("Every", every), ("Random", list(random_strings()))):
        nfkc = fnv1a(unicodedata.normalize("NFKC", text) for text in texts)
        folded = fnv1a(text.casefold() for text in texts)
        print(f"constexpr std::uint64_t k{name}Nfkc = {nfkc:#018x};")
        print(f"constexpr std::uint64_t k{name}Casefold = {folded:#018x};")


def main() -> int:
    """Write or check the generated file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    parser.add_argument("--digests", action="store_true", help="print the test's constants")
    arguments = parser.parse_args()
    if unicodedata.unidata_version != UNICODE_VERSION:
        print(
            f"needs Unicode {UNICODE_VERSION}; this Python has {unicodedata.unidata_version}",
            file=sys.stderr,
        )
        return 2
    if arguments.digests:
        print_digests()
        return 0
    text = generate()
    if not arguments.check:
        OUTPUT.write_text(text, encoding="utf-8")
        return 0
    if OUTPUT.read_text(encoding="utf-8") != text:
        print(f"{OUTPUT} differs from what this script writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
