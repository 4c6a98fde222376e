"""BM25Index.save and load: equal answers, damage noticed, settings kept (PER-2 to PER-4, R5)."""

import errno
import fcntl
import itertools
import os
import pickle
import re
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spector import (
    ConfigurationError,
    CorruptionError,
    SpectorError,
    StorageError,
    VersionError,
    _core,
    lexical,
)
from spector.lexical import BM25Index

DATA = Path(__file__).parent / "data"
WORDS = ["kiwi", "limes", "plum", "getUserName", "ERR_42", "東京タワー", "naïve", "a"]
MODES = pytest.mark.parametrize("mmap", [False, True], ids=["copied", "mapped"])

HEADER = 64
ENTRY = struct.Struct("<IIQQ")  # section, checksum, offset, bytes


def hits(index, queries=WORDS, k=50):
    """Ids, order and bits of the scores."""
    return [
        [(id, np.float32(score).tobytes()) for id, score in index.search(query, k)]
        for query in [*queries, "plum kiwi 東京"]
    ]


def token_hits(index, k=50):
    queries = ([1], [2, 3], [7, 1, 1], [2**32 - 1])
    return [
        (rows.tolist(), scores.tobytes())
        for rows, scores in (index.search_tokens(np.array(q, np.uint32), k) for q in queries)
    ]


def small():
    index = BM25Index(k1=0.9, b=0.4)
    for i in range(30):
        words = [WORDS[(i * j) % len(WORDS)] for j in range(1, 2 + i % 5)]
        index.add(f"d{i}", " ".join(words))
    index.add("many", "kiwi " * 300)
    for i in range(0, 30, 7):
        index.remove(f"d{i}")
    return index


def small_tokens():
    index = BM25Index()
    ends = np.arange(0, 61, 3)
    index.add_tokens([f"d{i}" for i in range(20)], ends, np.arange(60) % 11)
    index.add_tokens(["top"], [0, 2], np.array([7, 2**32 - 1], np.uint32))
    index.remove("d3")
    return index


def sections(data):
    n = struct.unpack_from("<I", data, HEADER)[0]
    return [ENTRY.unpack_from(data, HEADER + 8 + i * ENTRY.size) for i in range(n)]


def signed(data):
    """`data` with the checksums that its contents should have."""
    data = bytearray(data)
    entries = sections(data)
    for i, (section, _, offset, size) in enumerate(entries):
        checksum = _core.crc32c(bytes(data[offset : offset + size]))
        ENTRY.pack_into(data, HEADER + 8 + i * ENTRY.size, section, checksum, offset, size)
    table = bytes(data[HEADER + 8 : HEADER + 8 + len(entries) * ENTRY.size])
    struct.pack_into("<I", data, HEADER + 4, _core.crc32c(table))
    struct.pack_into("<I", data, 56, _core.crc32c(bytes(data[HEADER:])))
    struct.pack_into("<I", data, 60, _core.crc32c(bytes(data[:60])))
    return bytes(data)


texts = st.lists(st.sampled_from([*WORDS, "rare1", "rare2"]), max_size=9).map(" ".join)
changes = st.lists(
    st.tuples(st.sampled_from("aaar"), st.integers(0, 15).map("d{}".format), texts), max_size=30
)


def change(index, made):
    for kind, id, text in made:
        if kind == "a":
            index.add(id, text)
        else:
            index.remove(id)


@MODES
@settings(max_examples=40)
@given(before=changes, after=changes, later=changes, k1=st.sampled_from([1.2, 0.0, 2.0]))
def test_a_loaded_index_is_the_saved_one(tmp_path_factory, mmap, before, after, later, k1):
    """Also after further changes, and after saving and loading again (F-046)."""
    path = tmp_path_factory.mktemp("index") / "bm25.idx"
    index = BM25Index(k1=k1)
    change(index, before)
    index.save(path)
    loaded = BM25Index.load(path, mmap=mmap)
    for made in (after, later):
        assert hits(loaded) == hits(index)
        assert len(loaded) == len(index)
        for i in range(16):
            assert (f"d{i}" in loaded) is (f"d{i}" in index)
        change(index, made)
        change(loaded, made)
        assert hits(loaded) == hits(index)
        loaded.save(path)
        index.compact()
        loaded = BM25Index.load(path, mmap=mmap)
    kept = ("documents", "terms", "postings", "total_length", "fingerprint", "analyzer")
    assert {k: loaded.stats()[k] for k in kept} == {k: index.stats()[k] for k in kept}


tokens = st.lists(st.integers(0, 12) | st.just(2**32 - 1), max_size=9)
token_changes = st.lists(
    st.tuples(st.sampled_from("aaar"), st.integers(0, 15), tokens), max_size=20
)


def change_tokens(index, made):
    for kind, i, document in made:
        if kind == "a":
            index.add_tokens([f"d{i}"], [0, len(document)], np.array(document, np.uint32))
        else:
            index.remove(f"d{i}")


@MODES
@settings(max_examples=40)
@given(before=token_changes.filter(bool), after=token_changes)
def test_so_is_one_of_token_ids(tmp_path_factory, mmap, before, after):
    path = tmp_path_factory.mktemp("index") / "bm25.idx"
    index = BM25Index()
    change_tokens(index, [("a", 99, [1]), *before])
    index.save(path)
    loaded = BM25Index.load(path, mmap=mmap)
    assert token_hits(loaded) == token_hits(index)
    change_tokens(index, after)
    change_tokens(loaded, after)
    assert token_hits(loaded) == token_hits(index)
    loaded.compact()
    assert token_hits(loaded) == token_hits(index)
    with pytest.raises(ValueError, match="holds token ids"):
        loaded.add("x", "text")


@MODES
def test_many_windows_and_high_frequencies(tmp_path, mmap):
    """More rows than a window, terms of both kinds, frequencies above a byte, removed rows."""
    rng = np.random.default_rng(3)
    index = BM25Index()
    lengths = rng.integers(0, 12, 20_000)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    ids = [f"d{i}" for i in range(20_000)]
    index.add_tokens(ids, ends, np.minimum(rng.geometric(0.05, ends[-1]), 500))
    for i in range(10):
        index.add_tokens([f"x{i}"], [0, 1000 + i], np.full(1000 + i, i % 3))
    for i in range(0, 20_000, 9):
        index.remove(f"d{i}")
    index.save(tmp_path / "i")
    loaded = BM25Index.load(tmp_path / "i", mmap=mmap)
    for k in (3, 5000):
        assert token_hits(loaded, k) == token_hits(index, k)
    for both in (index, loaded):
        for i in range(1, 15_000, 2):
            both.remove(f"d{i}")
        both.add_tokens(["d2", "x3"], [0, 2, 3], np.array([1, 2, 3], np.uint32))
    for k in (3, 5000):
        assert token_hits(loaded, k) == token_hits(index, k)
    assert len(loaded) == len(index)


def test_a_mapped_index_keeps_the_file_that_save_replaces(tmp_path):
    path = tmp_path / "bm25.idx"
    index = small()
    index.save(path)
    loaded = BM25Index.load(path, mmap=True)
    before = hits(loaded)
    other = BM25Index()
    other.add("other", "kiwi")
    other.save(path)
    assert hits(loaded) == before
    loaded.save(path)  # over the file that the other one wrote
    assert hits(BM25Index.load(path)) == before


@MODES
def test_an_empty_index(tmp_path, mmap):
    """F-037; what is added first decides afterwards too."""
    BM25Index().save(tmp_path / "i")
    for use in ("texts", "tokens"):
        loaded = BM25Index.load(tmp_path / "i", mmap=mmap)
        assert (len(loaded), loaded.search("kiwi")) == (0, [])
        if use == "texts":
            loaded.add("a", "kiwi")
            assert [id for id, _ in loaded.search("kiwi")] == ["a"]
        else:
            loaded.add_tokens(["a"], [0, 1], [7])
            assert loaded.search_tokens([7])[0].tolist() == [0]
    emptied = small()
    for i in range(30):
        emptied.remove(f"d{i}")
    emptied.remove("many")
    emptied.save(tmp_path / "i")
    loaded = BM25Index.load(tmp_path / "i", mmap=mmap)
    assert (len(loaded), hits(loaded)) == (0, hits(emptied))


def test_rows_go_on_where_they_were(tmp_path):
    """Equal scores are in the order of first insertion across a save (GEN-4)."""
    index = BM25Index()
    for id in "abcd":
        index.add(id, "plum")
    index.remove("b")
    index.remove("d")
    index.save(tmp_path / "i")
    loaded = BM25Index.load(tmp_path / "i")
    loaded.add("b", "plum")
    assert [id for id, _ in loaded.search("plum")] == ["a", "c", "b"]


def test_settings_come_from_the_file(tmp_path):
    """F-046: k1, b, analyzer and language, whatever the defaults are."""
    index = BM25Index(k1=0.9, b=0.4, analyzer="whitespace", language=None)
    index.add("a", "Plums, limes. Plums,")
    index.add("b", "plums")
    index.save(tmp_path / "i")
    loaded = BM25Index.load(tmp_path / "i")
    assert loaded.stats()["analyzer"] == "whitespace"
    assert loaded.stats()["language"] is None
    assert hits(loaded, ["Plums,", "plums"]) == hits(index, ["Plums,", "plums"])
    assert loaded.explain("a", "Plums,") == index.explain("a", "Plums,")
    with pytest.raises(ConfigurationError, match="saved with analyzer='whitespace'"):
        BM25Index.load(tmp_path / "i", analyzer=str.split)


def test_a_callable_is_to_be_passed_again(tmp_path):
    index = BM25Index(analyzer=str.split)
    index.add("a", "x-1 y")
    index.save(tmp_path / "i")
    with pytest.raises(ConfigurationError, match="pass it to load"):
        BM25Index.load(tmp_path / "i")
    with pytest.raises(TypeError, match="must be a callable"):
        BM25Index.load(tmp_path / "i", analyzer="code")
    assert hits(BM25Index.load(tmp_path / "i", analyzer=str.split), ["x-1"]) == hits(index, ["x-1"])


def test_an_analyzer_of_another_release_is_refused(tmp_path, monkeypatch):
    index = small()
    index.save(tmp_path / "i")
    monkeypatch.setattr(lexical._core, "UNICODE_VERSION", "99.0")
    with pytest.raises(VersionError, match=r"unicode-15.*unicode-99.*rebuild"):
        BM25Index.load(tmp_path / "i")


def golden_texts():
    index = BM25Index(k1=0.9, b=0.4, analyzer="whitespace", language=None)
    index.add_batch(
        [f"d{i}" for i in range(40)],
        [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 2 + i % 5)) for i in range(40)],
    )
    index.add("many", "kiwi " * 300)
    index.remove("d5")
    return index


@MODES
@pytest.mark.parametrize("version", [2, 3])
def test_golden_files(version, mmap, monkeypatch):
    """Files that an earlier build wrote give the hits that it gave."""
    path = DATA / f"bm25-{version}-texts.idx"  # of golden_texts(); the other one of small_tokens()
    # A file of texts belongs to its analyzer; splitting at white space has not changed since.
    fingerprint = _core.IndexFile(os.fsencode(path), False).settings.fingerprint
    analyzer, unicode = re.fullmatch(r"whitespace-(\d+)/unicode-([\d.]+)", fingerprint).groups()
    monkeypatch.setattr(_core, "ANALYZER_VERSION", analyzer)
    monkeypatch.setattr(_core, "UNICODE_VERSION", unicode)
    loaded = BM25Index.load(path, mmap=mmap)
    assert [id for id, _ in loaded.search("ERR_42", 3)] == ["d4", "d12", "d28"]
    assert hits(loaded) == hits(golden_texts())

    loaded = BM25Index.load(DATA / f"bm25-{version}-tokens.idx", mmap=mmap)
    assert loaded.search_tokens([7, 1])[0].tolist()[:4] == [20, 0, 2, 4]
    assert token_hits(loaded) == token_hits(small_tokens())


def damaged(path, data, expected, mmap=True, ask=hits):
    """True if the damage was noticed; otherwise the answers must be right."""
    path.write_bytes(data)
    try:
        loaded = BM25Index.load(path, mmap=mmap)
        assert ask(loaded) == expected
        return False
    except (CorruptionError, VersionError) as error:
        assert str(path) in str(error) or "the file that the index was loaded from" in str(error)
        return True


@pytest.mark.parametrize("make, ask", [(small, hits), (small_tokens, token_hits)])
def test_every_flipped_byte_and_every_length(tmp_path, make, ask):
    """F-034, F-036: noticed, each of them."""
    index = make()
    index.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    expected = ask(index)
    path = tmp_path / "bad"
    for i in range(len(data)):
        bad = bytearray(data)
        bad[i] ^= 1 << (i % 8)
        assert damaged(path, bytes(bad), expected, mmap=i % 2 == 0, ask=ask), i
    for size in range(len(data)):
        assert damaged(path, data[:size], expected, mmap=size % 2 == 0, ask=ask), size
    assert damaged(path, data + b"\0", expected)


@pytest.mark.parametrize("make, ask", [(small, hits), (small_tokens, token_hits)])
def test_contents_are_checked_even_where_checksums_are_right(tmp_path, make, ask):
    """Whoever can write the file can write its checksums: no crash, hang or wild read (PER-4)."""
    index = make()
    index.save(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    path = tmp_path / "bad"
    noticed = 0
    values = (0, 1, 2**31 - 1, 2**31, 2**32 - 1)
    places = [
        at for _, _, offset, size in sections(good) for at in range(offset, offset + size - 3, 4)
    ]
    rng = np.random.default_rng(1)
    tries = [(at, value) for at in places for value in values]
    for i in rng.permutation(len(tries))[:3000]:
        at, value = tries[i]
        bad = bytearray(good)
        struct.pack_into("<I", bad, at, value)
        path.write_bytes(signed(bad))
        noticed += use(path)
    assert noticed > 100


def use(path):
    """Everything that reads a loaded index; True if something was refused on the way."""
    try:
        loaded = BM25Index.load(path, mmap=True)
        if loaded._holds == "token ids":
            token_hits(loaded)
            loaded.search_tokens_batch([0, 1, 3], [1, 2, 3], 1000)
            loaded.add_tokens(["d1", "new"], [0, 1, 3], np.array([1, 5, 9], np.uint32))
        else:
            hits(loaded)
            loaded.search("kiwi plum", 1)
            if "d1" in loaded:
                loaded.explain("d1", "kiwi limes")
            loaded.add("d1", "kiwi limes")
        for i in range(12):
            loaded.remove(f"d{i}")
        loaded.compact()
        hits(loaded) if loaded._holds == "texts" else token_hits(loaded)
        loaded.stats()
        loaded.save(path.with_suffix(".again"))
        return False
    except (SpectorError, UnicodeDecodeError):
        return True


@pytest.mark.parametrize("value", [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63])
def test_integers_of_header_and_table(tmp_path, value):
    """F-035: no allocation that the file does not justify, no crash; also where signed."""
    index = small()
    index.save(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    expected = hits(index)
    places = [(at, "<I") for at in (4, 12, 56, 60, HEADER, HEADER + 4)]
    places += [(at, "<H") for at in (8, 10)] + [(at, "<Q") for at in (16, 24, 32, 40, 48)]
    for i in range(len(sections(good))):
        at = HEADER + 8 + i * ENTRY.size
        places += [(at, "<I"), (at + 4, "<I"), (at + 8, "<Q"), (at + 16, "<Q")]
    for at, code in places:
        if value >= 256 ** struct.calcsize(code):
            continue
        bad = bytearray(good)
        struct.pack_into(code, bad, at, value)
        damaged(tmp_path / "bad", bytes(bad), expected)
        struct.pack_into("<I", bad, 60, _core.crc32c(bytes(bad[:60])))
        damaged(tmp_path / "bad", bytes(bad), expected)


def test_foreign_files(tmp_path):
    """F-047: nothing in a file is run."""
    marker = tmp_path / "marker"

    class Evil:
        def __reduce__(self):
            return (Path.touch, (marker,))

    path = tmp_path / "bm25.idx"
    for data in (b"", b"BIDX", pickle.dumps(Evil()), b"\x93NUMPY" + bytes(200), bytes(5000)):
        assert damaged(path, data, None)
    assert not marker.exists()
    source = (Path(lexical.__file__)).read_text("utf-8")
    assert not re.search(r"pickle|marshal|\beval\(", source)


def test_a_newer_version_is_left_alone(tmp_path):
    small().save(tmp_path / "i")
    data = bytearray((tmp_path / "i").read_bytes())
    struct.pack_into("<I", data, 4, 4)
    (tmp_path / "i").write_bytes(signed(data))
    with pytest.raises(VersionError, match="version 4 is newer than 3"):
        BM25Index.load(tmp_path / "i")
    assert (tmp_path / "i").read_bytes() == signed(data)


def test_what_the_system_refuses(tmp_path):
    index = small()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, number in [
        ("none", errno.ENOENT),
        ("folder", errno.EISDIR),
        ("pipe", errno.EINVAL),
        ("none/bm25.idx", errno.ENOENT),
        ("x" * 300, errno.ENAMETOOLONG),
    ]:
        with pytest.raises(StorageError) as caught:
            BM25Index.load(tmp_path / name)
        assert caught.value.errno == number
        assert caught.value.filename == str(tmp_path / name)
        assert isinstance(caught.value, OSError)
    for name, number in [
        ("folder", errno.EISDIR),
        ("none/bm25.idx", errno.ENOENT),
        ("x" * 300, errno.ENAMETOOLONG),
    ]:
        with pytest.raises(StorageError) as caught:
            index.save(tmp_path / name)
        assert caught.value.errno == number
    with pytest.raises(StorageError) as caught:
        index.save("/proc/bm25.idx")  # nobody may write there, root included
    assert caught.value.errno in (errno.EACCES, errno.EPERM, errno.ENOENT)
    with pytest.raises(ValueError, match="zero byte"):
        index.save("a\0b")
    with pytest.raises(TypeError):
        index.save(7)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_disk_that_is_full(tmp_path):
    """F-041: the old file stays, nothing else is left, and saving works once there is room."""
    path = tmp_path / "bm25.idx"
    small().save(path)
    before = path.read_bytes()
    index = small()
    index.add("more", "kiwi lots")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in itertools.chain(range(0, 200, 40), range(200, len(before), 700)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(StorageError) as caught:
                index.save(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.errno == errno.EFBIG
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]
    index.save(path)
    assert hits(BM25Index.load(path)) == hits(index)


SAVER = """
import sys
from spector.lexical import BM25Index
path = sys.argv[1] + "/данные-データ/bm25.idx"
index = BM25Index()
index.add("ñ", "naïve ñ 東京")
index.save(path)
for mmap in (False, True):
    loaded = BM25Index.load(path, mmap=mmap)
    assert loaded.search("naïve 東京") == index.search("naïve 東京") != []
try:
    BM25Index.load(path + "なし")
    raise SystemExit("loaded")
except OSError as error:
    assert error.filename == path + "なし", ascii(error.filename)
with open(path, "wb") as file:
    file.write(b"x")
try:
    BM25Index.load(path)
except Exception as error:
    assert path in str(error), ascii(str(error))
"""


def test_paths_and_texts_beyond_ascii(tmp_path):
    """F-045: whatever the locale is."""
    (tmp_path / "данные-データ").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SAVER, str(tmp_path)],
        env={**os.environ, "LANG": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


KILLED = """
import resource
import signal
import sys
from spector.lexical import BM25Index
index = BM25Index()
index.add_batch([f"d{i}" for i in range(2000)], [f"kiwi w{i}" for i in range(2000)])
if len(sys.argv) > 2:  # the process ends in the middle of its first write beyond the limit
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
print("ready", flush=True)
while True:
    index.save(sys.argv[1])
"""


def test_a_killed_save_leaves_an_old_or_a_new_file(tmp_path):
    path = tmp_path / "bm25.idx"
    small().save(path)
    for delay in (0.0, 0.001, 0.003, 0.01, 0.02):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        try:
            child.wait(delay)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()
        child.stdout.close()
        assert len(BM25Index.load(path, mmap=True)) in (len(small()), 2000)
    small().save(path)
    assert list(tmp_path.iterdir()) == [path]


def test_the_next_save_removes_what_a_killed_one_left(tmp_path):
    """PER-3; also if it goes to another name, and never what a living one still writes."""
    path = tmp_path / "bm25.idx"
    small().save(path)
    before = path.read_bytes()
    for limit in ("0", "1000"):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path), limit], check=False)
        assert done.returncode == -signal.SIGXFSZ
    left = [other for other in tmp_path.iterdir() if other != path]
    assert len(left) == 1  # the second child has removed what the first one left
    assert path.read_bytes() == before
    living = tmp_path / ".spector-0123456789abcdef.tmp"
    others = tmp_path / ".spector.tmp"
    others.touch()
    with living.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        small().save(tmp_path / "other.idx")
        assert not left[0].exists()
        assert living.exists()
    small().save(path)
    assert sorted(tmp_path.iterdir()) == [others, path, tmp_path / "other.idx"]
