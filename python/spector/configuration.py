"""Configuration: the options of a memory from a file, the environment, or a mapping.

One table, `OPTIONS`, has every option with its type, default and range. A value comes from the
first of: an argument of the call, an environment variable, the file or mapping, the default.
Everything is checked when it is read; an error names the key, where it came from and the nearest
key there is.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spector.errors import ConfigurationError
from spector.profiles import AUTO, DEFAULT, PROFILES
from spector.recall.fusion import FUSIONS
from spector.recall.modes import MODES
from spector.recall.options import (
    GRAPH_WEIGHTS,
    LATE_INTERACTIONS,
    RECALL_MODES,
    SCORE_COMBINES,
    SCORING_MODES,
)
from spector.store.bandit import POLICIES
from spector.store.values import nearest, show

__all__ = ["FILES", "OPTIONS", "Configuration", "Option", "Setting", "load"]

_PREFIX: Final = "spector.memory."
_VARIABLES: Final = "SPECTOR_MEMORY_"
#: The names of a configuration file in a folder; one of them at most.
FILES: Final = ("spector.yml", "spector.yaml", "spector.toml")
_LARGEST_FILE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table.

    Attributes
    ----------
    name : str
        The name in Python: a keyword of `SpectorMemory.open`; after ``recall.`` a field of
        `RecallOptions`; after ``recall.graph_weights.`` a layer.
    kind : type
        bool, int, float or str.
    default : object
        Where it is None, None is allowed.
    help : str
        One line.
    low, high : float
        The range of a number, both ends included.
    choices : tuple of str
        The values of a str; any if empty.
    aliases : tuple of str
        Other keys for it.
    """

    name: str
    kind: type
    default: bool | int | float | str | None
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name in files: ``spector.memory.bm25-enabled``."""
        return _PREFIX + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable: ``SPECTOR_MEMORY_BM25_ENABLED``."""
        return _variable(self.key)

    def check(self, value: object, where: str) -> Any:
        """The value in its type.

        Raises
        ------
        ConfigurationError
            It is not allowed.
        """
        if value is None and self.default is None:
            return None
        if self.kind is bool:
            if isinstance(value, bool):
                return value
        elif self.kind is str:
            if isinstance(value, str) and self.choices:
                folded = value.lower()
                if folded in self.choices:
                    return folded
            elif isinstance(value, str) and value:
                return value
        elif (
            isinstance(value, (int, float) if self.kind is float else int)
            and not isinstance(value, bool)
            and self.low <= value <= self.high  # NaN is in no range
        ):
            return self.kind(value)
        guess = nearest(value, self.choices) if isinstance(value, str) else ""
        raise ConfigurationError(
            f"{self.key} must be {self.allowed()}, got {show(value)} from {where}{guess}"
        )

    def parse(self, text: str, where: str) -> Any:
        """The value that the text of an environment variable stands for."""
        word = text.strip().lower()
        if self.default is None and word in ("none", "null"):
            return None
        if self.kind is bool:
            return self.check(_WORDS.get(word, text), where)
        if self.kind is str:
            return self.check(text, where)
        value: object = text
        with contextlib.suppress(ValueError):
            value = int(text) if self.kind is int else float(text)
        return self.check(value, where)

    def allowed(self) -> str:
        """What may be given, in words."""
        if self.kind is bool:
            text = "true or false"
        elif self.choices:
            text = "one of " + ", ".join(self.choices)
        elif self.kind is str:
            text = "a text"
        else:
            text = "a whole number" if self.kind is int else "a number"
            if self.high < math.inf:
                text += f" in [{self.low:g}, {self.high:g}]"
            elif self.low > -math.inf:
                text += f" of at least {self.low:g}"
        return text + (" or null" if self.default is None else "")


_WORDS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def _word(
    name: str, default: str | None, choices: Iterable[str], help: str, *aliases: str
) -> Option:
    return Option(name, str, default, help, choices=tuple(choices), aliases=aliases)


def _weight(layer: str, help: str, *aliases: str) -> Option:
    name = f"recall.graph_weights.{layer}"
    return Option(name, float, GRAPH_WEIGHTS[layer], help, 0, 10, (), aliases)


#: Every option that can be configured.
OPTIONS: Final = (
    # Of SpectorMemory.open.
    Option("k1", float, None, "BM25's k1; as stored, 1.2 in a new space", 0, 3),
    Option("b", float, None, "BM25's b; as stored, 0.75 in a new space", 0, 1),
    _word(
        "analyzer",
        None,
        ("code", "standard", "whitespace"),
        "how texts become terms; as stored, code in a new space",
    ),
    Option("language", str, None, "whose words are stemmed; as stored, english in a new space"),
    _word("models", None, ("all",), "built-in models for what is not given below"),
    _word("embedding_provider", None, ("minilm",), "built-in dense model"),
    _word("sparse_encoder", None, ("splade-tiny",), "built-in learned sparse model"),
    _word("token_encoder", None, ("minilm",), "built-in model of token vectors"),
    Option("query_table", str, None, "file of query weights for li_lsr"),
    _word(
        "entity_extraction_mode",
        "none",
        ("none", "llm", "custom"),
        "whether entities are drawn from texts (EXT-1)",
    ),
    _word("entity_extractor", None, ("rules",), "what draws them in the mode custom"),
    Option("text_generation_provider", str, None, "server and model for the mode llm: URL#MODEL"),
    Option("bm25_enabled", bool, True, "make the keyword index (TSM-1)"),
    Option("splade_enabled", bool, True, "false leaves the sparse encoder out (SPL-3)"),
    Option("ann", bool, False, "HNSW beyond 20,000 memories (DEN-2)"),
    Option("auto_tags", bool, False, "give memories without tags those in their text"),
    Option("flashbulb_threshold", float, 3.0, "surprise that pins a memory (IMP-2)", 0, 100),
    _word("bandit.policy", "epsilon_greedy", POLICIES, "how profile auto explores"),
    Option("bandit.epsilon", float, 0.1, "share of choices by chance (PAD-4)", 0, 1),
    Option("bandit.alpha", float, 0.15, "weight of the newest outcome (PAD-5)", 1e-9, 1),
    Option("bandit.minimum", int, 10, "outcomes before a context is known (PAD-3)", 0, 2**31),
    Option("bandit.back_off", bool, False, "else go by its tags, then by all"),
    _word("bandit.default", DEFAULT, PROFILES, "profile of an unknown context"),
    Option("merge_near_duplicates", bool, False, "nearly equal memories become one (IMP-3)"),
    Option(
        "strengthen_on_reinforce",
        bool,
        False,
        "associate what helped in one recall (HEB-5)",
    ),
    Option("busy_timeout", float, 5.0, "seconds to wait for another writer", 0, 2_000_000),
    Option("snapshot_every", int, 10_000, "changes after which a snapshot is made", 1),
    Option("reflect_every", float, None, "hours between reflections; 24, or null for none", 0.01),
    Option("seed", int, None, "of the random part of ids"),
    # Of RecallOptions, beside the conditions of one query.
    Option("recall.k", int, 10, "how many hits at most", 1, aliases=("recall.top_k",)),
    _word("recall.profile", DEFAULT, (*PROFILES, AUTO), "defaults of others (PRO-1 to PRO-15)"),
    _word("recall.recall_mode", "learn", RECALL_MODES, "observe changes nothing (REC-3)"),
    Option("recall.min_valence", int, None, "least valence of a hit", -128, 127),
    Option("recall.max_valence", int, None, "largest valence of a hit", -128, 127),
    Option("recall.min_importance", float, None, "least importance of a hit", 0, 10),
    _word("recall.text_search_mode", "hybrid", MODES, "which lists take part (TSM-4)"),
    Option("recall.enable_text_search", bool, True, "false leaves keywords out (TSM-2)"),
    Option("recall.gamma", float, 1.0, "weight of the keyword list (TSM-3)", 0, 10),
    _word("recall.fusion", "relative", FUSIONS, "how lists become one (AM-4)"),
    Option("recall.rrf_k", int, 60, "K of rrf", 1, 1000),
    _word("recall.late_interaction", "list", LATE_INTERACTIONS, "use of token vectors in hybrid"),
    Option("recall.enable_reranker", bool, False, "token vectors order the first hits (RRK-2)"),
    Option("recall.reranker_depth", int, 20, "how many hits that orders", 5, 100),
    _word(
        "recall.scoring_mode",
        "cognitive",
        SCORING_MODES,
        "similarity: no importance, no age",
    ),
    _word("recall.score_combine", "multiplicative", SCORE_COMBINES, "how it combines (SCO-6)"),
    Option("recall.alpha", float, 0.6, "weight of the match alone", 0, 1e6),
    Option("recall.beta", float, 0.4, "weight of importance and age", 0, 1e6),
    Option("recall.strictness", float, 1.0, "fall of similarity (SCO-5)", 0.0001, 100),
    Option("recall.habituation", float, 1.0, "1 is off (HAB-1)", 0.0001, 1),
    Option("recall.query_valence", int, None, "other valence scores less (SCO-8)", -128, 127),
    Option("recall.lateral", bool, False, "append lateral results (SCO-15)"),
    Option("recall.graph_expansion_threshold", float, 0.0, "gate of the graph (EXP-2)", 0, 2),
    Option("recall.graph_expansion", bool, True, "false leaves the graph out (EXP-1)"),
    _weight("temporal", "weight of what was told before and after"),
    _weight("hebbian", "weight of learned associations"),
    _weight("author", "weight of a named author's memories (AM-7)"),
    _weight("about", "weight of what is about a name in the query (AM-10)"),
    _weight("mention", "weight of what is about a name in a hit (AM-10)"),
    _weight("entity", "weight of what mentions who the query or a hit does (EXP-1)"),
    _weight("hyperedge", "weight of events with two entities of the query (HYP-7)"),
    _weight(
        "cross_capture", "weight of tags that go with a hit's (XCP-5)", "cross_capture.attenuation"
    ),
    Option(
        "recall.trace",
        bool,
        False,
        "tell how the graph reached a hit (EXP-9)",
        aliases=("recall.enable_trace",),
    ),
)


def _variable(key: str) -> str:
    return re.sub(r"[.-]", "_", key).upper()


def _all_keys(option: Option) -> Iterator[str]:
    yield option.key
    for alias in option.aliases:
        yield _PREFIX + alias.replace("_", "-")


_BY_KEY: Final = {key: option for option in OPTIONS for key in _all_keys(option)}
_BY_VARIABLE: Final = {_variable(key): option for key, option in _BY_KEY.items()}


def in_environment() -> bool:
    """Whether any variable may set an option."""
    return any(name.startswith(_VARIABLES) for name in os.environ)


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of one option and where it came from: ``default``, a file, or a variable."""

    option: Option
    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """What was configured.

    Attributes
    ----------
    settings : tuple of Setting
        One for each option, in the order of `OPTIONS`.
    """

    settings: tuple[Setting, ...] = field(
        default_factory=lambda: tuple(Setting(each, each.default, "default") for each in OPTIONS)
    )

    @property
    def open(self) -> dict[str, Any]:
        """Keywords of `SpectorMemory.open` that are not left at their default."""
        given = self._given("")
        bandit = self._given("bandit.")
        return {**given, "bandit": bandit} if bandit else given

    @property
    def recall(self) -> dict[str, Any]:
        """Fields of `RecallOptions` that are not left at their default."""
        given = self._given("recall.")
        weights = self._given("recall.graph_weights.")
        return {**given, "graph_weights": weights} if weights else given

    def _given(self, group: str) -> dict[str, Any]:
        given = {}
        for setting in self.settings:
            head, dot, name = setting.option.name.rpartition(".")
            if head + dot == group and setting.where != "default":
                given[name] = setting.value
        return given


def load(
    source: object = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Read a configuration.

    Parameters
    ----------
    source : None, True, path, mapping or Configuration
        None for the environment alone; True for the file in `folder` too, if there is one; a file,
        or a folder that has one; or the values themselves.
    folder : Path, optional
        The folder of the space.
    environment : mapping, optional
        Variables to read instead of the process's.

    Returns
    -------
    Configuration

    Raises
    ------
    ConfigurationError
        An unknown key, a value that is not allowed, a file that cannot be read.
    """
    if isinstance(source, Configuration):
        return source
    values: dict[str, tuple[Any, str]] = {}
    for path, value, where in _flat(*_read(source, folder)):
        option = _find(path, where)
        if option.name in values:
            raise ConfigurationError(f"{option.key} is given twice in {where}")
        values[option.name] = option.check(value, where), where
    seen: dict[str, str] = {}
    for variable, text in (os.environ if environment is None else environment).items():
        if not variable.startswith(_VARIABLES):
            continue
        found = _BY_VARIABLE.get(variable)
        if found is None:
            raise ConfigurationError(
                f"the environment variable {variable} sets no option"
                f"{nearest(variable, _BY_VARIABLE)}"
            )
        if found.name in seen:
            raise ConfigurationError(
                f"{found.key} is given twice: by {seen[found.name]} and {variable}"
            )
        seen[found.name] = variable
        where = f"the environment variable {variable}"
        values[found.name] = found.parse(text, where), where
    return Configuration(
        tuple(
            Setting(option, *values.get(option.name, (option.default, "default")))
            for option in OPTIONS
        )
    )


def _find(path: tuple[str, ...], where: str) -> Option:
    key = _PREFIX + ".".join(map(_kebab, path)).removeprefix(_PREFIX)
    found = _BY_KEY.get(key)
    if found is None:
        groups = {known.rsplit(".", 1)[0] for known in _BY_KEY}
        if key in groups:
            raise ConfigurationError(f"{key} must have keys below it in {where}")
        raise ConfigurationError(f"unknown key {key} in {where}{nearest(key, _BY_KEY)}")
    return found


def _kebab(name: str) -> str:
    """``bm25-enabled`` for it, ``bm25_enabled`` and ``bm25Enabled``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def _flat(
    values: Mapping[Any, Any], where: str, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for key, value in values.items():
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"keys must be texts, got {show(key)} in {where}")
        path = (*above, *key.split("."))
        if isinstance(value, Mapping):
            yield from _flat(value, where, path)
        elif value is None and len(path) <= 2 and path == ("spector", "memory")[: len(path)]:
            continue  # a file with the headings only
        else:
            yield path, value, where


def _read(source: object, folder: Path | None) -> tuple[Mapping[Any, Any], str]:
    if source is None:
        return {}, ""
    if isinstance(source, Mapping):
        return source, "config"
    if source is True:
        found = None if folder is None else _in_folder(folder)
        return ({}, "") if found is None else (_read_file(found), str(found))
    if isinstance(source, bool) or not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            "config must be a path, a mapping, True for the file in the space's folder, or None,"
            f" got {show(source)}"
        )
    path = Path(source)
    if path.is_dir():
        found = _in_folder(path)
        if found is None:
            raise ConfigurationError(f"there is no {' or '.join(FILES)} in the folder {path}")
        path = found
    return _read_file(path), str(path)


def _in_folder(folder: Path) -> Path | None:
    found = [folder / name for name in FILES if (folder / name).is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise ConfigurationError(f"{folder} has {names}; keep one of them")
    return found[0] if found else None


def _read_file(path: Path) -> Mapping[Any, Any]:
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise ConfigurationError(
            f"{path} must end in {', '.join(_PARSERS)} to be a configuration file"
        )
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_FILE:
        raise ConfigurationError(f"{path} has more than {_LARGEST_FILE:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8 at byte {error.start + 1}") from None
    try:
        values = parse(text, path)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{path} cannot be understood: {reason}") from None
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{path} must have keys and values, not {show(values)}")
    return values


def _parse_toml(text: str, path: Path) -> object:
    if sys.version_info < (3, 11):
        raise ConfigurationError(
            f"reading {path} needs Python 3.11 or newer, this is"
            f" {sys.version_info[0]}.{sys.version_info[1]}; use a spector.yml (extra yaml)"
        )
    import tomllib

    return tomllib.loads(text)


def _parse_yaml(text: str, path: Path) -> object:
    try:
        import yaml
    except ImportError:
        raise ConfigurationError(
            f'reading {path} needs an extra: pip install "spector[yaml]"'
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        pairs: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)) or key in pairs:
                raise ValueError(f"{show(key)} twice, or not a text{key_node.start_mark}")
            pairs[key] = loader.construct_object(value_node, deep=True)
        return pairs

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


_PARSERS: Final[Mapping[str, Callable[[str, Path], object]]] = {
    ".yml": _parse_yaml,
    ".yaml": _parse_yaml,
    ".toml": _parse_toml,
}
