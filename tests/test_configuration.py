"""Configuration from files, the environment and mappings (API-7; TSM-1, XCP-5, API-1, API-3)."""

import dataclasses
import inspect
import sys

import pytest

import spector.configuration as configuration
from shell import spector
from spector import ConfigurationError, ProfileAdaptor, RecallOptions, SpectorMemory
from spector.configuration import OPTIONS, load
from spector.recall.options import GRAPH_WEIGHTS
from spector.store.values import UNSET

#: Keywords of `open` that are no values, and the conditions of one query.
NOT_CONFIGURED = {"path", "config", "clock", "bandit"}
OF_ONE_QUERY = {"tags", "tag_match", "type", "author", "since", "until"}
OF_ONE_QUERY |= {"graph_weights", "entities", "session", "as_of"}


def values(source, **environment):
    found = load(source, environment=environment)
    return {one.option.name: one.value for one in found.settings if one.where != "default"}


def test_every_option_is_in_the_table_with_its_default():
    """API-1, API-3: whoever adds an option adds a row to `OPTIONS`, or an exception above."""
    table = {option.name: option.default for option in OPTIONS}
    assert len(table) == len(OPTIONS)
    expected = {
        name: None if parameter.default is UNSET else parameter.default
        for name, parameter in inspect.signature(SpectorMemory.open).parameters.items()
        if name not in NOT_CONFIGURED
    }
    for each in dataclasses.fields(RecallOptions):
        if each.init and each.name not in OF_ONE_QUERY:
            expected[f"recall.{each.name}"] = getattr(RecallOptions(), each.name)
    for layer, weight in GRAPH_WEIGHTS.items():
        expected[f"recall.graph_weights.{layer}"] = weight
    for name, parameter in inspect.signature(ProfileAdaptor).parameters.items():
        if name not in ("profiles", "seed"):
            expected[f"bandit.{name}"] = parameter.default
    assert table == expected
    ephemeral = set(inspect.signature(SpectorMemory.ephemeral).parameters)
    assert ephemeral - NOT_CONFIGURED <= set(table)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_defaults_and_choices_are_what_the_memory_takes(option):
    assert option.check(option.default, "here") == option.default
    if option.name.startswith("recall.") and "graph_weights" not in option.name:
        name = option.name.removeprefix("recall.")
        for choice in option.choices:
            RecallOptions.from_mapping({name: choice})
        for value in (option.low, option.high):
            if option.kind in (int, float) and abs(value) < 1e9:
                RecallOptions.from_mapping({name: option.kind(value)})
        if option.kind is int and option.low > -1e9:
            with pytest.raises(ValueError, match=name):
                RecallOptions.from_mapping({name: int(option.low) - 1})


@pytest.mark.parametrize(
    "key",
    [
        "spector.memory.bm25-enabled",
        "spector.memory.bm25_enabled",
        "spector.memory.bm25Enabled",
        "bm25-enabled",
        "bm25_enabled",
    ],
)
def test_three_spellings_and_short_keys(key):
    """TSM-1: kebab-case, snake_case and camelCase are one key."""
    assert values({key: False}) == {"bm25_enabled": False}


def test_keys_may_be_nested_or_dotted():
    nested = {"spector": {"memory": {"recall": {"topK": 3, "graphWeights": {"about": 0.5}}}}}
    expected = {"recall.k": 3, "recall.graph_weights.about": 0.5}
    assert values(nested) == expected
    assert values({"spector.memory": {"recall.k": 3, "recall.graph-weights.about": 0.5}}) == (
        expected
    )


def test_names_of_the_specification():
    """XCP-5, API-3: names that the specification gives to options that have another in Python."""
    assert values({"spector.memory.cross-capture.attenuation": 0.5}) == {
        "recall.graph_weights.cross_capture": 0.5
    }
    assert values({"recall": {"enableTrace": True}}) == {"recall.trace": True}
    assert values({}, SPECTOR_MEMORY_CROSS_CAPTURE_ATTENUATION="0.5") == {
        "recall.graph_weights.cross_capture": 0.5
    }


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("SPECTOR_MEMORY_BM25_ENABLED", "false", "bm25_enabled", False),
        ("SPECTOR_MEMORY_ANN", " YES ", "ann", True),
        ("SPECTOR_MEMORY_K1", "1.5", "k1", 1.5),
        ("SPECTOR_MEMORY_RECALL_K", "7", "recall.k", 7),
        ("SPECTOR_MEMORY_RECALL_TEXT_SEARCH_MODE", "KEYWORD_ONLY", "recall.text_search_mode",
         "keyword_only"),
        ("SPECTOR_MEMORY_LANGUAGE", "none", "language", None),
        ("SPECTOR_MEMORY_LANGUAGE", "german", "language", "german"),
    ],
)  # fmt: skip
def test_environment_variables(variable, text, name, value):
    assert values(None, **{variable: text}) == {name: value}


def test_precedence(tmp_path, monkeypatch):
    """Arguments, environment, file, default."""
    (tmp_path / "spector.toml").write_text(
        "[spector.memory]\nbusy-timeout = 2.0\nauto_tags = true\n[spector.memory.recall]\nk = 2\n"
    )
    monkeypatch.setenv("SPECTOR_MEMORY_RECALL_K", "3")
    if sys.version_info >= (3, 11):
        found = {one.option.name: one for one in load(True, folder=tmp_path).settings}
        assert (found["recall.k"].value, found["recall.k"].where) == (
            3,
            "the environment variable SPECTOR_MEMORY_RECALL_K",
        )
        assert (found["busy_timeout"].value, found["busy_timeout"].where) == (
            2.0,
            str(tmp_path / "spector.toml"),
        )
        assert (found["ann"].value, found["ann"].where) == (False, "default")
    with SpectorMemory.ephemeral(config={"recall": {"k": 1}}) as memory:
        memory.remember_many([{"text": f"word {number}"} for number in range(9)])
        assert len(memory.recall("word")) == 3
        assert len(memory.recall_many(["word"])[0]) == 3
        assert len(memory.recall("word", k=4)) == 4
        assert len(memory.recall("word", options={"gamma": 0.5})) == 3
        assert len(memory.recall("word", options={"k": 5})) == 5
        assert len(memory.recall("word", options=RecallOptions())) == 9


def test_an_argument_that_equals_the_default_still_wins(monkeypatch):
    monkeypatch.setenv("SPECTOR_MEMORY_BM25_ENABLED", "0")
    with SpectorMemory.ephemeral() as memory:
        memory.remember("word")
        assert len(memory.recall("word")) == 0
        with pytest.raises(ConfigurationError):
            memory.recall("word", text_search_mode="keyword_only")
    with SpectorMemory.ephemeral(bm25_enabled=True) as memory:
        memory.remember("word")
        assert len(memory.recall("word")) == 1


def test_weights_of_a_call_leave_the_others_as_configured():
    with SpectorMemory.ephemeral(config={"cross_capture.attenuation": 0.5}) as memory:
        from spector.recall.options import resolve

        chosen = resolve(None, {"graph_weights": {"about": 0.1}}, memory._recall_defaults)
    assert dict(chosen.graph_weights) == {**GRAPH_WEIGHTS, "cross_capture": 0.5, "about": 0.1}


def test_a_library_call_does_not_read_files_lying_about(tmp_path):
    (tmp_path / "spector.yml").write_text("spector: {memory: {nonsense: 1}}")
    SpectorMemory.open(tmp_path).close()
    with pytest.raises(ConfigurationError, match=r"nonsense|spector\[yaml\]"):
        SpectorMemory.open(tmp_path, config=True)
    SpectorMemory.open(tmp_path / "other", config=True).close()  # none there


def test_a_named_file_and_a_named_folder(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML belongs to the extra yaml")
    folder = tmp_path / "conf"
    folder.mkdir()
    with pytest.raises(ConfigurationError, match=r"no spector\.yml or .* in the folder"):
        SpectorMemory.open(tmp_path / "space", config=folder)
    file = folder / "spector.yml"
    file.write_text("spector:\n  memory:\n    k1: 0.9\n    language: null\n")
    for config in (file, folder, str(file), {"k1": 0.9, "language": None}):
        with SpectorMemory.open(tmp_path / "space", config=config) as memory:
            assert (memory.status().k1, memory.status().language) == (0.9, None)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"bm25-enable": True}, r"unknown key .*bm25-enable in config; did you mean"),
        ({"bm25_enabled": "maybe"}, r"bm25-enabled must be true or false, got 'maybe' from config"),
        ({"bm25_enabled": 1}, "must be true or false, got 1"),
        ({"recall": {"k": 0}}, r"recall\.k must be a whole number of at least 1, got 0"),
        ({"recall": {"k": True}}, "got True"),
        ({"recall": {"k": 2.5}}, r"got 2\.5"),
        ({"recall": {"gamma": float("nan")}}, r"in \[0, 10\], got nan"),
        ({"recall": {"gamma": float("inf")}}, "got inf"),
        (
            {"recall": {"fusion": "rff"}},
            "of relative, rrf, got 'rff' from .*did you mean 'rrf'",
        ),
        ({"recall": 5}, r"spector\.memory\.recall must have keys below it"),
        ({"recall": {"k": 1, "topK": 2}}, r"recall\.k is given twice in config"),
        ({"bm25_enabled": True, "bm25-enabled": True}, "given twice"),
        ({1: 2}, "keys must be texts, got 1"),
        ({"": 2}, "keys must be texts"),
        ({"bm25_enabled": None}, "got None"),
        ({"analyzer": ""}, "analyzer must be one of"),
        ({"recall": {"alpha": 0, "beta": 0}}, "alpha and beta"),
        ({"embedding_provider": "mini"}, "embedding-provider must be one of minilm"),
    ],
)
def test_what_is_wrong_names_the_key_and_where_it_was(source, message):
    """GEN-5: nothing is opened, and the message says what would be right."""
    with pytest.raises(ValueError, match=message):
        SpectorMemory.ephemeral(config=source)


@pytest.mark.parametrize("config", [False, 3, b"x", ["k1"]])
def test_a_config_of_another_type(config):
    with pytest.raises(TypeError, match="config must be a path, a mapping"):
        SpectorMemory.ephemeral(config=config)


def test_variables_that_are_wrong(monkeypatch):
    with pytest.raises(ConfigurationError, match="sets no option; did you mean"):
        load(None, environment={"SPECTOR_MEMORY_BM25_ENABLE": "1"})
    with pytest.raises(ConfigurationError, match=r"'ten' from the environment variable SPECTOR_"):
        load(None, environment={"SPECTOR_MEMORY_RECALL_K": "ten"})
    with pytest.raises(ConfigurationError, match="given twice: by"):
        load(
            None,
            environment={"SPECTOR_MEMORY_RECALL_K": "1", "SPECTOR_MEMORY_RECALL_TOP_K": "1"},
        )
    assert values(None, SPECTOR_PATH="x", SPECTOR_SIMD="scalar") == {}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("spector.yml", b"a: [", "cannot be understood"),
        ("spector.yml", b"- a", "must have keys and values"),
        ("spector.yml", b"k1: 1\nk1: 2", "twice"),
        ("spector.yml", b"\xff\xfe\x00", "not UTF-8 at byte 1"),
        ("spector.yml", b"k1: !!python/object/apply:os.getcwd []", "cannot be understood"),
        ("spector.yml", b"[" * 100_000, "cannot be understood"),
        ("spector.yml", b"#" * 1_000_001, "more than 1,000,000 bytes"),
        ("spector.ini", b"", "must end in .yml, .yaml, .toml"),
    ],
)
def test_files_that_are_wrong(tmp_path, name, data, message):
    pytest.importorskip("yaml", reason="PyYAML belongs to the extra yaml")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigurationError, match=message) as raised:
        load(tmp_path / name)
    assert name in str(raised.value)


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "spector:\n", "spector:\n  memory:\n"])
def test_an_empty_file_sets_nothing(tmp_path, text):
    pytest.importorskip("yaml", reason="PyYAML belongs to the extra yaml")
    (tmp_path / "spector.yml").write_text(text)
    assert values(tmp_path / "spector.yml") == {}


def test_a_toml_file(tmp_path):
    path = tmp_path / "spector.toml"
    path.write_text("[spector.memory]\nk1 = \n")
    if sys.version_info < (3, 11):
        with pytest.raises(ConfigurationError, match=r"needs Python 3\.11"):
            load(path)
        return
    with pytest.raises(ConfigurationError, match="cannot be understood"):
        load(path)
    path.write_text("[spector.memory]\nk1 = 1\n")
    assert values(path) == {"k1": 1.0}


def test_older_pythons_are_told_why_toml_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(configuration.sys, "version_info", (3, 10, 0))
    (tmp_path / "spector.toml").write_text("")
    with pytest.raises(ConfigurationError, match=r"needs Python 3\.11 or newer, this is 3\.10"):
        load(tmp_path)


def test_two_files_in_one_folder(tmp_path):
    (tmp_path / "spector.yml").write_text("")
    (tmp_path / "spector.toml").write_text("")
    with pytest.raises(ConfigurationError, match=r"has spector\.yml and spector\.toml; keep one"):
        load(True, folder=tmp_path)


def test_without_pyyaml_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "spector.yaml").write_text("")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigurationError, match=r'pip install "spector\[yaml\]"'):
        load(tmp_path)


def test_the_command_shows_values_and_where_they_came_from(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML belongs to the extra yaml")
    pytest.importorskip("typer", reason="the command line is an extra")
    file = tmp_path / "spector.yml"
    file.write_text("spector:\n  memory:\n    bm25-enabled: false\n    recall: {k: 2}\n")
    done = spector(
        *("config", "show", "--path", tmp_path, "--json"), SPECTOR_MEMORY_RECALL_K="1"
    ).json
    found = {row["key"]: row for row in done}
    assert len(found) == len(OPTIONS)
    assert found["spector.memory.bm25-enabled"]["value"] is False
    assert found["spector.memory.bm25-enabled"]["from"] == str(file)
    assert found["spector.memory.recall.k"]["value"] == 1
    assert found["spector.memory.ann"]["from"] == "default"
    assert found["spector.memory.ann"]["variable"] == "SPECTOR_MEMORY_ANN"
    lines = spector("config", "show", "--path", tmp_path).out.splitlines()
    assert f"spector.memory.bm25-enabled\tfalse\t{file}" in lines
    assert "spector.memory.language\tnull\tdefault" in lines


def test_the_command_shows_what_the_space_was_made_with(tmp_path):
    pytest.importorskip("typer", reason="the command line is an extra")
    SpectorMemory.open(tmp_path, k1=1.5, language=None).close()
    lines = spector("config", "show", "--path", tmp_path).out.splitlines()
    assert "spector.memory.k1\t1.5\tthe space" in lines
    assert "spector.memory.analyzer\tcode\tthe space" in lines
    assert "spector.memory.language\tnull\tthe space" in lines
    done = spector("config", "show", "--path", tmp_path, SPECTOR_MEMORY_K1="1")
    assert "spector.memory.k1\t1.0\tthe environment variable SPECTOR_MEMORY_K1" in done.out


def test_the_command_line_reads_the_file_of_its_space(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML belongs to the extra yaml")
    pytest.importorskip("typer", reason="the command line is an extra")
    for number in range(4):
        spector("remember", f"word {number}", "--path", tmp_path)
    (tmp_path / "spector.yml").write_text("spector.memory.recall.k: 2")
    for arguments, count in (([], 2), (["-k", "3"], 3)):
        done = spector("recall", "word", "--path", tmp_path, "--json", *arguments).json
        assert len(done["hits"]) == count
    (tmp_path / "spector.yml").write_text("spector.memory.recal.k: 2")
    done = spector("recall", "word", "--path", tmp_path, fails=True)
    assert done.code == 1
    assert "did you mean 'spector.memory.recall.k'" in done.err


def test_the_bandit_is_configured(tmp_path):  # PAD-5
    config = {"spector": {"memory": {"bandit": {"policy": "thompson", "minimum": 0}}}}
    with SpectorMemory.ephemeral(config=config) as memory:
        assert "thompson" in repr(memory.bandit)
    with pytest.raises(ConfigurationError, match=r"bandit\.policy must be one of"):
        SpectorMemory.ephemeral(config={"spector.memory.bandit.policy": "greedy"})
