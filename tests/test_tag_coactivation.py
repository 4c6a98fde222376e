"""Tag co-activation and sequences of tags (COA-1 to STDP-2), against a plain model."""

import math
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference import tags as oracle
from spector import CorruptionError, SpectorError, _core, arguments
from spector.graph import TagCoActivation

TAGS = [f"tag-{i}" for i in range(9)] + ["straße", "東京"]
FOLDED = [tag.replace("ß", "ss") for tag in TAGS]
tag_lists = st.lists(st.sampled_from(FOLDED), max_size=5)
# Two words with the same FNV-1a hash of 64 bits, found by search.
TWINS = "4xse3zniwn55a", "5pg2sdcpvte2g"


def compare(store, model, tags=FOLDED):
    assert store.pairs() == model.pairs()
    assert store.edges() == model.edges()
    assert store.tags() == sorted(model.n.items())
    assert store.stats() == {
        "pairs": len(model.counts),
        "edges": len(model.weights),
        "capacity": model.capacity,
        "observations": model.observations,
    }
    for tag in tags:
        assert store.n(tag) == model.n.get(tag, 0)
        for n in (2, 100):
            assert store.associated(tag, n) == model.associated(tag)[:n]
            assert store.predict(tag, n) == model.predict(tag)[:n]
        assert store.degree(tag) == len(model.associated(tag))


class Histories(RuleBasedStateMachine):
    """Every public change, in any order, with tables that are full most of the time."""

    @initialize(capacity=st.sampled_from([1, 7, 12, 25]))
    def begin(self, capacity):
        self.store, self.model = TagCoActivation(capacity), oracle.TagCoActivation(capacity)
        self.memories = []

    @rule(tags=tag_lists)
    def observe(self, tags):
        self.store.observe(tags)
        self.model.observe(tags)
        self.memories.append(tags)

    @rule(memories=st.lists(tag_lists, max_size=3))
    def observe_many(self, memories):
        self.store.observe_many(memories)
        for tags in memories:
            self.model.observe(tags)
        self.memories += memories

    @rule(memories=st.lists(tag_lists, max_size=3))
    def observe_folded(self, memories):
        memories = [arguments.tags("tags", tags) for tags in memories]
        self.store.observe_folded(memories)
        for tags in memories:
            self.model.observe(tags)
        self.memories += memories

    @precondition(lambda self: self.memories)
    @rule(data=st.data())
    def forget(self, data):
        tags = self.memories.pop(data.draw(st.integers(0, len(self.memories) - 1)))
        self.store.forget(tags)
        self.model.forget(tags)

    @precondition(lambda self: self.memories)
    @rule(data=st.data(), tags=tag_lists)
    def update(self, data, tags):
        place = data.draw(st.integers(0, len(self.memories) - 1))
        self.store.update(self.memories[place], tags)
        self.model.forget(self.memories[place])
        self.model.observe(tags)
        self.memories[place] = tags

    @rule(
        earlier=tag_lists,
        later=tag_lists,
        dt_ms=st.sampled_from([-5, 0, 0.5, 1_000, 29_999, 120_000, 120_001]),
    )
    def sequence(self, earlier, later, dt_ms):
        learned = self.store.observe_sequence(earlier, later, dt_ms)
        assert learned == self.model.observe_sequence(earlier, later, dt_ms)

    @rule()
    def save_and_load(self):
        path = f"{os.environ['SPECTOR_TEST_FOLDER']}/coactivation.dat"
        self.store.save(path)
        self.store = TagCoActivation.load(path)

    @rule(tag=st.sampled_from([7, "", "  ", "\ud800"]))
    def refused(self, tag):
        for call in (self.store.observe, self.store.forget):
            with pytest.raises((TypeError, ValueError)):
                call([FOLDED[0], tag])

    @invariant()
    def agrees(self):
        compare(self.store, self.model)


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    os.environ["SPECTOR_TEST_FOLDER"] = str(tmp_path_factory.mktemp("tags"))
    yield
    del os.environ["SPECTOR_TEST_FOLDER"]


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)


def test_coa1_counts_are_those_of_live_memories():
    store = TagCoActivation()
    store.observe(["a", "b", "c", "a"])
    store.observe(["b", "a"])
    assert store.pairs() == [("a", "b", 2), ("a", "c", 1), ("b", "c", 1)]
    assert store.tags() == [("a", 2), ("b", 2), ("c", 1)]
    store.update(["a", "b", "c"], ["c", "d"])
    assert store.pairs() == [("a", "b", 1), ("c", "d", 1)]
    store.forget(["b", "a"])
    assert store.pairs() == [("c", "d", 1)]
    assert store.co_activation("a", "b") == store.n("a") == 0


def test_coa1_tags_are_folded():
    store = TagCoActivation()
    store.observe([" Straße", "ＡＰＩ", "api", "New\tYork"])
    assert store.tags() == [("api", 1), ("new york", 1), ("strasse", 1)]
    assert store.co_activation("STRASSE", "Api") == 1


def test_coa1_tags_with_equal_hashes_are_reported_and_never_mixed(tmp_path):
    one, two = TWINS
    assert _core.hash64(one) == _core.hash64(two)
    store = TagCoActivation()
    store.observe([one, "x"])
    assert store.collisions == []
    store.observe([two, "y", "z"])
    store.observe([two, "y"])
    store.observe_sequence([one], [two], 1000)
    store.save(tmp_path / "tags")
    for seen in (store, TagCoActivation.load(tmp_path / "tags")):
        assert seen.collisions == [TWINS]
        assert seen.associated(one) == [("x", 1)]
        assert seen.associated(two) == [("y", 2), ("z", 1)]
        assert (seen.n(one), seen.n(two)) == (1, 2)
        assert seen.weight(one, two) > 0 == seen.weight(two, one)


def test_coa1_other_tags_do_not_collide():
    store = TagCoActivation()
    store.observe_many([[f"tag-{i}", f"other-{i}"] for i in range(5000)])
    assert store.collisions == []


def test_coa2_a_full_table_loses_its_weakest_tenth_by_count_then_last_use():
    store = TagCoActivation(capacity=20)
    for i in range(20):
        store.observe([f"a{i:02}", f"b{i:02}"])
    store.observe(["a00", "b00"])  # count 2
    store.observe(["a01", "b01"])
    store.forget(["a01", "b01"])  # count 1 again, but used lately
    store.observe(["new", "pair"])
    kept = {a for a, _, _ in store.pairs()}
    assert kept == {f"a{i:02}" for i in range(20)} - {"a02", "a03"} | {"new"}
    assert store.n("a02") == 1, "counts of memories are exact"


def test_coa2_pruning_does_not_break_the_chains_of_the_table():
    """The Java system empties slots inside probe chains: the same pair is then there twice."""
    capacity = 200
    store, model = TagCoActivation(capacity), oracle.TagCoActivation(capacity)
    random = np.random.default_rng(5)
    names = [f"t{i}" for i in range(60)]
    for _ in range(3000):
        tags = [names[i] for i in random.zipf(1.3, 4) % len(names)]
        store.observe(tags)
        model.observe(tags)
    pairs = store.pairs()
    assert len({(a, b) for a, b, _ in pairs}) == len(pairs) <= capacity
    compare(store, model, names)


def test_coa2_co_activation_is_symmetric_and_associated_is_by_count_then_name():
    store = TagCoActivation()
    for other, n in {"b": 2, "c": 3, "a": 2, "d": 1}.items():
        for _ in range(n):
            store.observe(["hub", other])
    assert store.associated("hub") == [("c", 3), ("a", 2), ("b", 2), ("d", 1)]
    assert store.associated("hub", 2) == [("c", 3), ("a", 2)]
    assert store.co_activation("hub", "a") == store.co_activation("a", "hub") == 2
    assert store.associated("nobody") == []


def test_stdp1_predict_is_by_weight_then_name_and_stays_in_its_range():
    store = TagCoActivation()
    for _ in range(400):  # F-055: strengthening without bound
        store.observe_sequence(["a"], ["b"], 1)
    store.observe_sequence(["a"], ["d", "c"], 10_000)
    assert store.weight("a", "b") == 1.0
    assert [tag for tag, _ in store.predict("a")] == ["b", "c", "d"]
    assert store.predict("b") == []


def test_stdp2_arithmetic():
    store = TagCoActivation()
    gain = 0.1 * math.exp(-15_000 / 30_000)
    assert store.observe_sequence(["a", "b"], ["b", "c"], 15_000)
    assert store.edges() == [
        (a, b, pytest.approx(gain)) for a, b in [("a", "b"), ("a", "c"), ("b", "c")]
    ]
    store.observe_sequence(["c"], ["b"], 15_000)
    assert store.weight("b", "c") == pytest.approx(gain / 2)
    assert store.weight("c", "b") == pytest.approx(gain)
    store.observe_sequence(["c"], ["b"], 15_000)
    assert store.edges()[-1] == ("c", "b", pytest.approx(2 * gain))
    assert store.weight("b", "c") == pytest.approx(0, abs=1e-8)


def test_stdp2_what_comes_before_is_the_stronger_direction():
    store = TagCoActivation()
    for _ in range(10):
        store.observe_sequence(["deploy"], ["error"], 5_000)
    store.observe_sequence(["error"], ["deploy"], 5_000)
    assert store.weight("deploy", "error") > store.weight("error", "deploy") > 0


def test_stdp2_a_decrease_creates_no_edge():
    store = TagCoActivation()
    store.observe_sequence(["a"], ["b"], 100)
    assert store.edges() == [("a", "b", pytest.approx(0.0997, abs=1e-3))]


@pytest.mark.parametrize("dt_ms", [0, -1, -1e18, 120_000.5, 1e300, math.inf, -math.inf])
def test_f061_f062_times_out_of_order_or_far_apart_teach_nothing(dt_ms):
    store = TagCoActivation()
    assert store.observe_sequence(["a"], ["b"], dt_ms) is False
    assert store.edges() == []
    assert store.stats()["observations"] == 0


def test_bud2_about_a_megabyte_whatever_was_observed():
    """BUD-2, BUD-8: full tables, and more tags than they hold."""
    store = TagCoActivation()
    random = np.random.default_rng(1)
    names = [f"tag-{i}" for i in range(400)]
    for _ in range(6):
        store.observe_many([[names[i] for i in random.integers(0, 400, 4)] for _ in range(5000)])
        for _ in range(200):
            a, b = random.integers(0, 400, (2, 30))
            store.observe_sequence([names[i] for i in a], [names[i] for i in b], 100)
        usage = store.memory_usage()
        assert usage["tables"] <= 1.15e6, usage
    assert store.stats()["pairs"] > 9000 < store.stats()["edges"]
    assert usage["tables"] >= 0.7e6, "the tables are full: a budget of nothing proves nothing"


def test_f056_a_tag_that_is_forgotten_leaves_nothing_behind(tmp_path):
    store = TagCoActivation()
    store.observe(["zxq-secret-91", "b"])
    store.forget(["zxq-secret-91", "b"])
    store.save(tmp_path / "tags")
    assert b"secret" not in (tmp_path / "tags").read_bytes()
    assert TagCoActivation.load(tmp_path / "tags").tags() == []


def test_gen2_equal_states_give_equal_files(tmp_path):
    """However they came about; the dates in the header aside."""
    one, two = TagCoActivation(), TagCoActivation()
    one.observe(["a", "b"])
    one.observe(["d", "c", "x"])
    two.observe(["x", "q", "r"])
    two.update(["x", "q", "r"], ["c", "d", "x"])
    two.observe(["b", "a"])
    # The same pairs with the same counts; last uses differ.
    assert one.pairs() == two.pairs()
    three = TagCoActivation()
    three.observe(["b", "a"])
    three.observe(["x", "c", "d"])
    one.save(tmp_path / "one")
    three.save(tmp_path / "three")
    first, third = ((tmp_path / name).read_bytes() for name in ("one", "three"))
    assert first[:40] + first[64:] == third[:40] + third[64:]


def test_bad_arguments_are_named_and_change_nothing():
    store = TagCoActivation(5)
    store.observe(["a", "b"])
    before = store.pairs(), store.tags(), store.stats()
    for call, error, word in [
        (lambda: TagCoActivation(0), ValueError, "capacity"),
        (lambda: TagCoActivation(2**24 + 1), ValueError, "capacity"),
        (lambda: TagCoActivation(1.5), TypeError, "capacity"),
        (lambda: store.observe("abc"), TypeError, "tags"),
        (lambda: store.observe(None), TypeError, "tags"),
        (lambda: store.observe(["c", 7]), TypeError, "tags"),
        (lambda: store.observe(["c", " \t"]), ValueError, "tags"),
        (lambda: store.observe([f"t{i}" for i in range(1001)]), ValueError, "1000"),
        (lambda: store.observe_many([["c"], ["d", ""]]), ValueError, "memories"),
        (lambda: store.observe_many([["c"], ["\ud800"]]), ValueError, "memories"),
        (lambda: store.forget(["a", "c"]), ValueError, "tag 1"),
        (lambda: store.update(["a", "b"], ["\ud800"]), ValueError, "after"),
        (lambda: store.update(["a", "c"], ["d"]), ValueError, "tag 1"),
        (lambda: store.observe_sequence(["a"], ["c"], math.nan), ValueError, "dt_ms"),
        (lambda: store.observe_sequence(["a"], ["c"], "1"), TypeError, "dt_ms"),
        (lambda: store.observe_sequence(["a"], [f"t{i}" for i in range(41)], 1), ValueError, "40"),
        (lambda: store.associated("a", 0), ValueError, "n"),
        (lambda: store.predict("a", 1.0), TypeError, "n"),
        (lambda: store.co_activation("a", ""), ValueError, "b"),
        (lambda: store.n(None), TypeError, "tag"),
        (lambda: store.n("\ud800"), ValueError, "tag"),
        (lambda: store.co_activation("a", "é\udfff"), ValueError, "b"),
        (lambda: store.predict("\ud800"), ValueError, "tag"),
    ]:
        with pytest.raises(error, match=word):
            call()
    assert (store.pairs(), store.tags(), store.stats()) == before


def test_per7_a_file_of_version_2_is_read_by_every_release():
    store = TagCoActivation.load(Path(__file__).parent / "data" / "coactivation-2.dat")
    assert store.stats() == {"pairs": 3, "edges": 2, "capacity": 7, "observations": 5}
    assert store.tags() == [("alone", 1), ("database", 2), ("deploy", 2), ("東京", 1)]
    assert store.pairs() == [
        ("database", "deploy", 2), ("database", "東京", 1), ("deploy", "東京", 1),
    ]  # fmt: skip
    weight = pytest.approx(0.1 * math.exp(-0.5))
    assert store.edges() == [("deploy", "database", weight), ("deploy", "error", weight)]


def test_per3_save_fails_as_a_whole(tmp_path):
    store = TagCoActivation()
    store.observe(["a", "b"])
    with pytest.raises(SpectorError) as caught:
        store.save(tmp_path / "no folder" / "tags")
    assert isinstance(caught.value, OSError)
    with pytest.raises(OSError, match="No such file"):
        TagCoActivation.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("not such a file, and longer than its header would be" * 3)
    with pytest.raises(CorruptionError, match="text"):
        TagCoActivation.load(tmp_path / "text")


def test_readers_beside_a_writer_see_whole_memories():
    """Each memory brings all three pairs of its tags or none."""
    store = TagCoActivation()
    faults, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            counts = {count for _, _, count in store.pairs()}
            if len(counts) > 1:
                faults.append(counts)
            store.associated("a")
            store.predict("a")

    threads = [threading.Thread(target=look) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for i in range(1500):
            store.observe(["a", "b", "c"])
            if i % 2:
                store.forget(["c", "b", "a"])
            store.observe_sequence(["a"], ["b"], 10)
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not faults
    assert store.pairs() == [("a", "b", 750), ("a", "c", 750), ("b", "c", 750)]


def test_sequences_that_make_their_items_when_asked():
    """R12: nothing but the store's call keeps these alive; of lists, the lists do."""

    class Made:
        def __init__(self, make):
            self.make = make

        def __len__(self):
            return 50

        def __getitem__(self, place):
            if place >= 50:
                raise IndexError
            return self.make(place)

    store = TagCoActivation()
    store.observe_folded(Made(lambda n: Made(lambda m: f"tag {n % 5} {m % 3}")))
    expected = TagCoActivation()
    expected.observe_many([{f"tag {n % 5} {m}" for m in range(3)} for n in range(50)])
    assert {tag for tag, _ in store.tags()} == {tag for tag, _ in expected.tags()}
    with pytest.raises(TypeError):
        store.observe_folded(np.array([1, 0], dtype=object))
