"""The analyzer in plain Python: what the tokens of a text are, without a thought for speed.

Written from the specification (TOK-1 to TOK-12) over `unicodedata` and regular expressions, as the
oracle of the C++ analyzer. A text becomes a list of units, a unit being a character with its
marks, and a string of their classes in which the expressions look for compounds and borders.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BYTES = 256
MAX_SUFFIXES = 8
MAX_PREFIXES = 8

# Classes: U upper, L lower, O other letter, D digit, c Han and kana, h Hangul, t Thai, M mark, and
# the joiners as themselves. A blank separates.
_LEVEL_1 = "/\\:@#"
_LEVEL_2 = _LEVEL_1 + "."
_LEVEL_3 = _LEVEL_2 + "_-+'"
_SEGMENT = "_*[ULOD][_ULOD]*"
_JOINER = r"(?::[/\\]{1,3}|::|\\\\|[-+'./\\:@#])"
_COMPOUND = re.compile(rf"{_SEGMENT}(?:{_JOINER}{_SEGMENT})*(?:(?<=[ULO])(?:\+\+|#))?|c+|h+|t+")
_TAIL = re.compile(r"(?:\+\+|#)\Z")
_TAIL_REMNANT = re.compile(rf"'({_SEGMENT})(?!{_JOINER}{_SEGMENT})(?![_ULOD])")
_BORDER = re.compile(r"(?<=L)(?=U)|(?<=U)(?=UL)|(?<=D)(?=[ULO])|(?<=[ULO])(?=D)")
_CHANGE = re.compile(r"(?<=D)(?=[ULO])|(?<=[ULO])(?=D)")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_URN = re.compile(r"[Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:")
_DATE = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?=[{re.escape(_LEVEL_3)}]|[Tt][0-9]|\Z)")
_HEX_LITERAL = re.compile(r"0x[0-9a-f]+")
# Latin letters that are others with a stroke, or two, but do not decompose.
_LATIN = str.maketrans(
    {
        "\u00e6": "ae",
        "\u00f0": "d",
        "\u00f8": "o",
        "\u00fe": "th",
        "\u0111": "d",
        "\u0127": "h",
        "\u0131": "i",
        "\u0142": "l",
        "\u0153": "oe",
        "\u0167": "t",
    }
)

_IGNORED = re.compile(
    "[\u00ad\u200c\u200d\u2060\ufeff\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_CJK_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ",
    "HANGZHOU ",
    "VERTICAL IDEOGRAPHIC ITERATION MARK",
    "VERTICAL KANA REPEAT ",
    "MASU MARK",
    "HIRAGANA ",
    "KATAKANA",
    "HENTAIGANA ",
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Function words; not those of place, time, number and degree (TOK-8, AM-2).
STOP_WORDS = _words(
    """
    a an the i me my myself we us our ours ourselves you your yours yourself yourselves he him his
    himself she her hers herself it its itself they them their theirs themselves this that these
    those there here such about as at by for from in into of on to with and but or if then not no
    what when who whom whose which where why how am is are was were be been being do does did doing
    have has had having can cannot could will would shall should
    """
)
CONTRACTIONS = _words(
    """
    aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't mustn't needn't
    shan't shouldn't wasn't weren't won't wouldn't ain't i'm you're we're they're who're i've you've
    we've they've i'd you'd he'd she'd it'd we'd they'd who'd i'll you'll he'll she'll it'll we'll
    they'll who'll he's she's it's that's there's here's what's when's where's who's why's how's
    that'll that'd what're let's
    """
)
REMNANTS = _words("s t ll re ve d m")
STANDARD_STOP_WORDS = _words(
    """
    a an and are as at be but by for if in into is it no not of on or such that the their then
    there these they this to was will with
    """
)


@dataclass(frozen=True)
class Token:
    """One token: `part` and `word` and `stop` as in cpp/lexical/analyzer.hpp."""

    text: str
    part: bool
    word: bool
    stop: bool


@dataclass(frozen=True)
class Compound:
    """One position and its tokens, the whole form first."""

    tokens: tuple[Token, ...]
    identifier: bool = False
    whole_only: bool = False


def analyze(text: str, analyzer: str = "code") -> list[Compound]:
    """Return the compounds of a text."""
    text = re.sub("[\ud800-\udfff]", "\ufffd" * 3, text)  # one for each byte of its encoding
    if analyzer == "code":
        return list(_code(text))
    text = unicodedata.normalize("NFKC", text)
    if analyzer == "whitespace":
        runs = [fold(run, strip_accents=False) for run in _WHITE_SPACE.split(text) if run]
    else:
        kept = "".join(c if unicodedata.category(c)[0] in "LN" else " " for c in text)
        runs = [fold(run, strip_accents=False) for run in kept.split(" ") if run]
        runs = [run for run in runs if len(run) > 1 and run not in STANDARD_STOP_WORDS]
    return [Compound((Token(_cut(run), False, False, False),)) for run in runs]


def fold(text: str, *, strip_accents: bool) -> str:
    """Return NFKC text as it is matched: casefolded, its Western accents removed."""
    folded = ""
    accent_base = False
    for char in unicodedata.normalize("NFD", text.casefold()):
        if unicodedata.category(char)[0] == "M":
            if accent_base and strip_accents:
                continue
        else:
            accent_base = _is_accent_base(char)
        folded += char
    folded = unicodedata.normalize("NFC", folded)
    return folded.translate(_LATIN) if strip_accents else folded


def _is_accent_base(char: str) -> bool:
    if char in "0123456789":
        return True
    name = unicodedata.name(char, "")
    letter = unicodedata.category(char)[0] == "L"
    return letter and name.startswith(("LATIN ", "GREEK ", "CYRILLIC "))


def _class(char: str) -> str:
    if char in _LEVEL_3:
        return char
    category = unicodedata.category(char)
    if category[0] == "M":
        return "M"
    if category[0] not in "LN":
        return " "
    name = unicodedata.name(char, "")
    if name.startswith(_CJK_NAMES):
        return "c"
    if name.startswith("HANGUL "):
        return "h"
    if category[0] == "N":
        return "D"
    if name.startswith("THAI "):
        return "t"
    return {"Lu": "U", "Lt": "U", "Ll": "L"}.get(category, "O")


def _units(text: str) -> tuple[list[str], str]:
    units: list[str] = []
    classes = ""
    for char in text:
        kind = _class(char)
        if kind != "M":
            units.append(char)
            classes += kind
        elif classes and classes[-1] in "ULODcht":
            units[-1] += char
        else:  # a mark without a base
            units.append(char)
            classes += " "
    return units, classes


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_BYTES:
        return text
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return data[: MAX_BYTES - 16].decode(errors="ignore") + f"{hashed or 1:016x}"


def _code(text: str) -> Iterator[Compound]:
    text = unicodedata.normalize("NFKC", _IGNORED.sub("", text))
    units, classes = _units(text.replace("\u2019", "'").replace("\u2010", "-"))
    raw = "".join(unit if len(unit) == 1 else "~" for unit in units)
    position = 0
    while match := _COMPOUND.search(classes, position):
        begin, end = match.span()
        position = end
        if classes[begin] in "cht":
            for i in range(begin, max(begin + 1, end - 1)):
                bigram = "".join(units[i : min(i + 2, end)])
                yield Compound((Token(_cut(bigram), False, False, False),))
            continue
        tail = _TAIL.search(match.group())
        core = begin + tail.start() if tail else end
        rest = _without_remnants(raw, classes, begin, core)
        if rest < core:
            end, position = rest, core
        elif not tail:
            pass
        elif _ends_opaque(raw[begin:core], classes[begin:core], units[begin:core]):
            end = position = core
        elif (behind := _TAIL_REMNANT.match(classes, end)) and _is_remnant(raw, *behind.span(1)):
            position = behind.end()
        yield _compound(units[begin:end], classes[begin:end], raw[begin:end])


def _is_remnant(raw: str, begin: int, end: int) -> bool:
    return raw[begin:end].lower() in REMNANTS


def _without_remnants(raw: str, classes: str, begin: int, end: int) -> int:
    """Return where a compound ends without `'s` and the like, if it is no plain word then."""
    while True:
        rest = classes.rfind("'", begin, end)
        if rest < 0 or not _is_remnant(raw, rest + 1, end):
            return end
        shape = classes[begin:rest]
        if re.fullmatch("[ULO]+", shape) and not _BORDER.search(shape):
            return end
        end = rest


def _ends_opaque(raw: str, classes: str, units: list[str]) -> bool:
    """Tell whether the last segment is a UUID, a hash or the like."""
    masked = _masked(raw, classes)
    begin, end = list(_segments(masked, 0, len(raw), _LEVEL_3))[-1]
    folded = fold("".join(units[begin:end]), strip_accents=True)
    return masked[begin] == "X" or _is_atomic(masked[begin:end], folded)


def _masked(raw: str, classes: str) -> str:
    """Return the classes with those of each UUID between two borders replaced."""
    for match in _UUID.finditer(raw):
        begin, end = match.span()
        before, behind = classes[begin - 1 : begin], classes[end : end + 1]
        if before in _LEVEL_3 and behind in _LEVEL_3:
            classes = classes[:begin] + "X" * (end - begin) + classes[end:]
    return classes


def _segments(classes: str, begin: int, end: int, joiners: str) -> Iterator[tuple[int, int]]:
    start = begin
    for i in range(begin, end + 1):
        if i == end or classes[i] in joiners:
            if start < i:
                yield start, i
            start = i + 1


def _is_atomic(classes: str, folded: str) -> bool:
    if not re.fullmatch("[ULOD]+", classes):
        return False
    hashed = len(classes) >= 16 and len(_CHANGE.findall(classes)) >= 4
    return hashed or _HEX_LITERAL.fullmatch(folded) is not None


def _compound(units: list[str], classes: str, raw: str) -> Compound:
    tokens: dict[tuple[str, bool], Token] = {}

    def folded(begin: int, end: int) -> str:
        return fold("".join(units[begin:end]), strip_accents=True)

    def add(text: str, *, part: bool, word: bool = False, stop: bool = False) -> None:
        text = _cut(text)
        tokens.setdefault((text, word), Token(text, part, word, stop))

    def add_uuid(text: str, *, part: bool) -> None:
        add(text, part=part)
        add(text[:8], part=True)
        add(text.replace("-", ""), part=True)

    masked = _masked(raw, classes)
    size = len(units)
    tail = _TAIL.search(classes)
    core = tail.start() if tail else size
    whole = folded(0, size)
    contraction = "'" in classes and whole in CONTRACTIONS

    def add_form(begin: int, end: int, *, part: bool, remnant: bool = False) -> None:
        text = folded(begin, end)
        shape = classes[begin:end]
        if masked[begin:end] == "X" * 36 and part:
            add_uuid(text, part=True)
            return
        stop = contraction or text in STOP_WORDS or (remnant and text in REMNANTS)
        letters = re.fullmatch("[ULO]+", shape) is not None
        if not letters or _BORDER.search(shape):
            add(text, part=part, stop=stop)
        if letters:
            add(text, part=part, word=True, stop=stop)

    urn = 9 if _URN.match(raw) else 0
    if masked[urn:] == "X" * 36:
        add_uuid(folded(urn, size), part=False)
        return Compound(tuple(tokens.values()), identifier=True, whole_only=True)
    if _is_atomic(classes, whole):
        add(whole, part=False)
        return Compound(tuple(tokens.values()), identifier=True, whole_only=True)

    add_form(0, size, part=False)
    first = list(_segments(classes, 0, core, _LEVEL_1))
    second = list(_segments(classes, 0, core, _LEVEL_2))
    third = list(_segments(masked, 0, core, _LEVEL_3))

    joiners = _LEVEL_2 + "-+'"
    borders = [i for i in range(core) if classes[i] in _LEVEL_2 and classes[i + 1] not in joiners]
    starts = {first[-1][0], second[-1][0]}  # these suffixes are segments
    for i in borders[-MAX_SUFFIXES:]:
        if i + 1 not in starts:
            add(folded(i + 1, size), part=True)
    for begin, end in _numbers(raw[:core], classes[:core], third):
        add(folded(begin, end), part=True)
    if len(second) > 1 or size > core or re.search("[-_+']", classes):
        for begin, end in first:
            if len(first) > 1:
                add_form(begin, size if end == core else end, part=True)
        for begin, end in second:
            if (begin, end) not in first:
                add_form(begin, size if end == core else end, part=True)
        for begin, end in third:
            if (begin, end) not in second or (end == core < size):
                behind = begin > 0 and classes[begin - 1] == "'"
                add_form(begin, end, part=True, remnant=behind)
    if re.fullmatch(r"[ULO](?:\.[ULO])+", classes):
        acronym = whole.replace(".", "")
        add(acronym, part=True, word=True, stop=acronym in STOP_WORDS)
    for begin, end in third:
        shape = masked[begin:end]
        cuts = [m.start() for m in _BORDER.finditer(shape)]
        if cuts and not _is_atomic(shape, folded(begin, end)):
            for a, b in zip([0, *cuts], [*cuts, len(shape)], strict=True):
                add_form(begin + a, begin + b, part=True)

    identifier = (
        size > core
        or re.search(r"[_./\\:@#]", classes) is not None
        or _BORDER.search(classes) is not None
        or ("-" in classes and "D" in classes)
    )
    return Compound(tuple(tokens.values()), identifier=identifier)


def _numbers(raw: str, classes: str, leaves: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the dotted numbers and the dates between borders."""
    left = MAX_PREFIXES
    run: list[tuple[int, int]] = []
    for begin, end in [*leaves, (len(raw) + 1, len(raw) + 1)]:
        v = raw[begin : begin + 1] in ("v", "V")
        number = re.fullmatch("D+", classes[begin + v : end]) is not None
        dotted = classes[begin - 1 : begin] == "."
        linked = dotted and not v and bool(run) and run[-1][1] == begin - 1
        if not number or not linked:
            if len(run) > 1 and raw[run[0][0]] in "vV":
                yield run[0][0] + 1, run[-1][1]
            run = []
        if number and (linked or not dotted):
            run.append((begin, end))
            if len(run) > 1 and left > 0:
                yield run[0][0], end
                left -= 1
        if date := _DATE.match(raw, begin):
            yield date.span()
