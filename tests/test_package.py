"""What is installed: import cost, stubs, version, no side effects."""

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import spector
from spector import _core


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_loads_nothing_that_is_not_needed():
    """The import costs little beside numpy's; `python -m bench.import_time` prints the ratio."""
    done = run(
        "import sys, numpy; before = set(sys.modules)\n"
        "import spector, spector.lexical\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded <= {"spector", "numpy", "copy", "dataclasses", "threading"}
    assert done.stderr == ""


def test_import_opens_no_socket_and_writes_no_file(tmp_path):
    done = run(
        "import sys\n"
        "def watch(event, arguments):\n"
        "    if event.startswith('socket.'): raise SystemExit(event)\n"
        "    if event == 'open' and any(c in str(arguments[1]) for c in 'wax+'):\n"
        "        raise SystemExit(f'{event} {arguments}')\n"
        "sys.dont_write_bytecode = True\n"
        "sys.addaudithook(watch)\n"
        "import spector, spector.lexical\n"
        "spector.lexical.BM25Index().add('a', 'text')"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("level", _core.available_simd_levels())
def test_spector_simd_forces_a_level(level):
    done = run("import spector; print(spector.simd_level())", SPECTOR_SIMD=level)
    assert done.stdout.strip() == level


def test_an_unknown_spector_simd_is_refused_with_the_levels_there_are():
    done = run("import spector; spector.simd_level()", SPECTOR_SIMD="mmx")
    assert done.returncode == 1
    assert "SIMD level 'mmx': this machine has" in done.stderr


def test_the_stub_matches_the_extension():
    stub = (Path(spector.__file__).parent / "_core.pyi").read_text("utf-8")
    top = set(re.findall(r"^(?:class|def) (\w+)|^(\w+):", stub, re.MULTILINE))
    named = {name for pair in top for name in pair if name}
    assert named == {name for name in dir(_core) if not name.startswith("__")}
    for name in named:
        member = getattr(_core, name)
        if not inspect.isclass(member) or issubclass(member, Exception):
            continue
        body = stub.partition(f"class {name}:")[2].partition("\nclass ")[0]
        stubbed = set(re.findall(r"    def (\w+)", body))
        special = {"__init__", "__len__"}
        bound = {
            method for method in vars(member) if not method.startswith("_") or method in special
        }
        # pybind11 gives every class an __init__; one that cannot be made has none in the stub.
        assert stubbed | {"__init__"} == bound | {"__init__"}, name


def split(text):
    """The parameters of a signature: commas inside brackets are of types."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parameters_of(member, name):
    """Names of the parameters, as pybind11 wrote them into the docstring; one list, or several
    for overloads. One without a name takes what is given by position only."""
    found = []
    for line in (member.__doc__ or "").splitlines():
        signature = re.match(rf"(?:\d+\. )?{name}\((.*)\)(?: -> .*)?$", line)
        if signature:
            names = [re.match(r"[*\w/]+", part)[0] for part in split(signature[1])]
            found.append([re.sub(r"arg\d+", "/", each) for each in names])
    return found


def parameters_in_stub(function):
    arguments = function.args
    names = [each.arg for each in arguments.args]
    if arguments.posonlyargs:  # self and those
        names = [arguments.posonlyargs[0].arg, *"/" * (len(arguments.posonlyargs) - 1), *names]
    if arguments.kwonlyargs:
        names.append("*")
    return names + [each.arg for each in arguments.kwonlyargs]


def test_parameters_in_the_stub_are_those_of_the_extension():
    compared = 0
    for node in ast.parse((Path(spector.__file__).parent / "_core.pyi").read_text("utf-8")).body:
        owner = getattr(_core, node.name) if isinstance(node, ast.ClassDef) else _core
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            if not isinstance(function, ast.FunctionDef):
                continue
            member = getattr(owner, function.name)
            if not isinstance(member, property):
                stubbed = [parameters_in_stub(function)]
                assert stubbed == parameters_of(member, function.name), (node.name, function.name)
                compared += 1
    assert compared > 100


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert version("spector") == spector.__version__


def test_public_names_exist():
    for name in spector.__all__:
        assert getattr(spector, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = spector.nonsense


@pytest.mark.parametrize("name", ["spector", "spector.lexical", "spector.records.store"])
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


LOW_LEVEL = {
    "lexical": ["BM25Index"],
    "sparse": ["SparseIndex"],
    "ann": ["HnswIndex"],
    "store.bandit": ["ProfileAdaptor"],
    "graph": [
        *("HebbianGraph", "TagCoActivation", "TemporalChain", "EntityDirectory"),
        *("HyperGraph", "TypeRegistry", "CrossCapture"),
    ],
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in LOW_LEVEL.items() for name in names]
)
def test_api_5_low_level_objects_stand_alone(module, name):
    """Each is made without a memory, and has a docstring that says how it is used."""
    made = getattr(importlib.import_module(f"spector.{module}"), name)
    if name == "HnswIndex" and find_spec("usearch") is None:
        pytest.skip("usearch belongs to the extra ann")
    needed = {"HnswIndex": [2], "TypeRegistry": ["entities"]}
    made(*needed.get(name, []))
    assert made.__doc__


def test_crc32c_and_hash64():
    assert _core.crc32c(b"123456789") == 0xE3069283
    assert _core.crc32c(b"6789", _core.crc32c(b"12345")) == 0xE3069283
    assert _core.hash64("database") == 0x06B3AD3149AD2458  # GEN-7
