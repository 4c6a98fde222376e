"""Names read off a text, without a model (EXT-1, CUSTOM)."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from spector import arguments
from spector._core import NameMatcher
from spector.arguments import fold
from spector.store.model import Entity
from spector.store.values import MAX_ENTITIES, type_name

from .protocol import Extraction, name_of
from .words import ALONE, COMMON, TITLES, TYPE_OF_LAST

__all__ = ["Known", "RuleEntityExtractor"]


class Known(NamedTuple):
    """A known name at a place of the NFKC form of a text."""

    name: str
    type: str
    begin: int
    end: int


# Words that join two capitalised ones into one name.
_JOINERS: Final = r"(?:of|the|de|du|des|da|di|del|della|la|le|van|von|der|den|zu|al|bin|y|for)"
_CAPITAL: Final = r"[A-ZÀ-ÖØ-Þ\u0391-\u03A9\u0410-\u042F]"
# "George T. Solomon", "St. Maurice", "U.S."
_NAME_WORD: Final = (
    rf"(?:{_CAPITAL}|St|Mt|Dr|Mr|Mrs|Ms|Prof|Jr|Sr)\.(?= {_CAPITAL})"
    rf"|{_CAPITAL}[\w'’&.-]*\w|{_CAPITAL}\b"
)
_RUN: Final = re.compile(
    rf"(?<!\w)(?:{_NAME_WORD})(?:(?: {_JOINERS}){{0,2}} (?:{_NAME_WORD})){{0,11}}"
)
_QUOTED: Final = re.compile(r"[\"“«]([^\"“”«»\n]{2,80})[\"”»]")
_LINKED: Final = re.compile(
    r"\[\[([^\[\]|\n]{2,120})(?:\|[^\[\]\n]{0,120})?\]\]|\[([^\[\]\n]{2,120})\]\([^()\s]{1,500}\)"
)
_HANDLE: Final = re.compile(r"(?<![\w@.])@(\w[\w.-]{1,38}\w)")
_CODE_SPAN: Final = re.compile(r"`([^`\n]{2,80})`")
_IDENTIFIER: Final = re.compile(
    r"(?<![\w.])(?:"
    r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*\(\)"  # call()
    r"|[A-Za-z]\w*(?:(?:\.|::)[A-Za-z_]\w*){2,}|[A-Za-z_]\w*::[A-Za-z_]\w*"  # a.b.c, a::b
    r"|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+"  # snake_case, ERR_CONN_RESET
    r"|[a-z]+[0-9]*(?:[A-Z][a-z0-9]+)+|(?:[A-Z][a-z0-9]+){2,}"  # camelCase, PascalCase
    r"|[A-Za-z]{2,}-[0-9]+"  # db-7, JIRA-123
    r")(?!\w)"
)
_SENTENCE_END: Final = frozenset('.!?:;\n"“”«»()[]')


class _Found(NamedTuple):
    begin: int
    end: int
    entity: Entity


class RuleEntityExtractor:
    """Finds entities by how they are written, in one pass.

    They are: names it knows; linked, quoted and ``@``-names; identifiers of code; runs of words
    with a capital. A single word at the beginning of a sentence counts only where the text has it
    elsewhere as well, or all of it is capitals. Of what overlaps the longer counts.

    Parameters
    ----------
    names : iterable of str or (str, str)
        Names it knows, with their types. A memory that it is given to adds its own.
    max_entities : int
        How many of a text count, in [1, 1000]; the first ones.
    """

    #: `remember` waits for it.
    immediate = True

    def __init__(
        self, names: Iterable[str | tuple[str, str]] = (), max_entities: int = MAX_ENTITIES
    ) -> None:
        self.max_entities = arguments.whole("max_entities", max_entities, 1, 1000)
        self._matcher = NameMatcher()
        self._names: list[tuple[str, str]] = []
        self._others: Callable[[str], Iterable[Known]] | None = None
        for item in names:
            self.add(*((item,) if isinstance(item, str) else item))

    def add(self, name: str, type: str = "OTHER") -> None:
        """Let a name be known from now on."""
        if self._matcher.add(name, len(self._names)):
            self._names.append((name, type_name("type", "entities", type)))

    def with_names(self, known: Callable[[str], Iterable[Known]]) -> RuleEntityExtractor:
        """One that knows other names as well: `known` gives those in a text that is NFKC.

        What is added to either is known to both; the other names are its own.
        """
        other = copy.copy(self)
        other._others = known
        return other

    def extract(self, id: str, text: str) -> Extraction:
        """The entities of a text, in its order."""
        normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
        found = self._known(normal)
        if self._others is not None:
            found += [
                _Found(known.begin, known.end, Entity(known.name, known.type))
                for known in self._others(normal)
            ]
        found += _marked(normal)
        found += _runs(normal)
        found.sort(key=lambda each: (each.begin, -each.end))
        kept: dict[str, Entity] = {}
        for each in _longest(found):
            if name_of(each.entity.name) is None:
                continue
            kept.setdefault(fold(each.entity.name), each.entity)
            if len(kept) == self.max_entities:
                break
        return Extraction(tuple(kept.values()))

    def _known(self, text: str) -> list[_Found]:
        return [
            _Found(begin, end, Entity(*self._names[numbers[0]]))
            for _, numbers, begin, end in self._matcher.find(text)
        ]


def _longest(found: list[_Found]) -> list[_Found]:
    """Of each group of overlapping ones the longest, then what is left beside it."""
    kept: list[_Found] = []
    for each in found:  # by their beginning, the longer first
        if kept and each.begin < kept[-1].end:
            if each.end - each.begin > kept[-1].end - kept[-1].begin:
                kept[-1] = each
            continue
        kept.append(each)
    return kept


def _marked(text: str) -> list[_Found]:
    """What is linked, quoted, addressed or code."""
    found = []
    if "[" in text:
        for match in _LINKED.finditer(text):
            name = match.group(1) or match.group(2)
            found.append(_Found(match.start(), match.end(), Entity(name.strip())))
    for match in _QUOTED.finditer(text):
        inner = match.group(1).strip()
        words = inner.split()
        if len(words) <= 8 and inner[:1].isupper() and inner[-1:] not in ".!?,":
            found.append(_Found(match.start(), match.end(), Entity(inner)))
    if "@" in text:
        for match in _HANDLE.finditer(text):
            found.append(_Found(match.start(), match.end(), Entity(match.group(1), "PERSON")))
    if "`" in text:
        for match in _CODE_SPAN.finditer(text):
            if len(match.group(1).split()) == 1:
                found.append(_Found(match.start(), match.end(), Entity(match.group(1), "API")))
    for match in _IDENTIFIER.finditer(text):
        name = match.group().removesuffix("()")
        found.append(_Found(match.start(), match.end(), Entity(name, "API")))
    return found


def _runs(text: str) -> list[_Found]:
    """Runs of words with a capital."""
    found: list[_Found] = []
    doubtful: list[_Found] = []
    certain: set[str] = set()
    for match in _RUN.finditer(text):
        begin, end = match.span()
        starts = _starts_sentence(text, begin)
        words = match.group().split(" ")
        while words and _bare(words[0]) in COMMON and (starts or len(words) > 1):
            begin += len(words[0]) + 1
            words = words[1:]
            starts = False
        while words and (not words[-1][:1].isupper() or _bare(words[-1]) in COMMON):
            end -= len(words[-1]) + 1
            words = words[:-1]
        if not words or begin >= end:
            continue
        name = text[begin:end].rstrip(".&-'’")
        owner = name.removesuffix("'s").removesuffix("’s")
        certainly = owner != name and _bare(owner) not in COMMON | ALONE
        name = owner
        each = _Found(begin, begin + len(name), Entity(name, _kind(words)))
        acronym = len(name) > 1 and name.isupper()
        if len(words) == 1 and starts and not acronym and not certainly:
            doubtful.append(each)
        elif len(words) > 1 or acronym or _bare(name) not in COMMON | ALONE:
            found.append(each)
            certain.update(words)
    return found + [each for each in doubtful if each.entity.name in certain]


def _starts_sentence(text: str, begin: int) -> bool:
    place = begin - 1
    while place >= 0 and text[place] in " \t":
        place -= 1
    return place < 0 or text[place] in _SENTENCE_END


def _bare(word: str) -> str:
    return word.replace("’", "'").partition("'")[0].rstrip(".,").lower()


def _kind(words: list[str]) -> str:
    if len(words) > 1:
        if _bare(words[0]) in TITLES:
            return "PERSON"
        for word in (words[-1], words[0]):
            kind = TYPE_OF_LAST.get(_bare(word))
            if kind is not None:
                return kind
    return "OTHER"
