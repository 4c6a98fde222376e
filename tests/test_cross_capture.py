"""From tags to memories and along related tags (XCP-1 to XCP-5), against a plain model."""

import math
import sys
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference import tags as oracle
from spector import arguments
from spector.graph import CrossCapture, TagCoActivation

TAGS = [f"tag-{i}" for i in range(8)]
tag_lists = st.lists(st.sampled_from(TAGS), max_size=5)
slot_numbers = st.one_of(st.integers(0, 200), st.sampled_from([2**20, 2**32 - 2]))


def compare(index, model, tags=TAGS):
    assert len(index) == len(model.memories)
    assert index.stats()["entries"] == sum(len(own) for own in model.memories.values())
    assert index.tags() == sorted({tag for own in model.memories.values() for tag in own})
    for slot, own in model.memories.items():
        assert index.tags(slot) == own
    for tag in tags:
        slots = index.slots(tag)
        assert slots.dtype == np.uint32
        assert slots.tolist() == model.slots(tag)
        assert index.n(tag) == len(slots)


def rebuilt(model):
    """XCP-1: from the memories' tags, in one go."""
    index = CrossCapture()
    index.add_many(list(model.memories), list(model.memories.values()))
    return index


class Histories(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.index, self.model = CrossCapture(), oracle.CrossCapture()
        self.counts, self.counted = TagCoActivation(), oracle.TagCoActivation(10_000)

    def change(self, slot, tags):
        before = self.model.memories.get(slot, [])
        self.model.update(slot, tags)
        self.counts.update(before, tags)
        self.counted.forget(before)
        self.counted.observe(tags)

    @rule(slot=slot_numbers, tags=tag_lists)
    def add(self, slot, tags):
        if slot in self.model.memories:
            with pytest.raises(ValueError, match=str(slot)):
                self.index.add(slot, tags)
            return
        self.index.add(slot, tags)
        self.change(slot, tags)

    @rule(slot=slot_numbers, tags=tag_lists)
    def update(self, slot, tags):
        self.index.update(slot, tags)
        self.change(slot, tags)

    @precondition(lambda self: self.model.memories)
    @rule(data=st.data())
    def remove(self, data):
        slot = data.draw(st.sampled_from(sorted(self.model.memories)))
        assert self.index.remove(slot)
        assert not self.index.remove(slot)
        self.change(slot, [])

    @rule(
        first=st.integers(300, 5000),
        memories=st.lists(tag_lists, max_size=20),
        folded=st.booleans(),
    )
    def add_many(self, first, memories, folded):
        slots = [first + i for i in range(len(memories))]
        if not self.model.memories.keys().isdisjoint(slots):
            return
        if folded:
            memories = [arguments.tags("tags", tags) for tags in memories]
            self.index.add_folded(np.array(slots, np.uint32), memories)
        else:
            self.index.add_many(slots, memories)
        for slot, tags in zip(slots, memories, strict=True):
            self.change(slot, tags)

    @rule()
    def rebuild(self):
        self.index = rebuilt(self.model)

    @rule()
    def table(self):
        names, slots, ends, tags = self.index.table()
        assert names == self.index.tags()
        own = [[names[tag] for tag in part] for part in np.split(tags, ends.astype(int))]
        assert own.pop() == []
        assert list(zip(slots.tolist(), own, strict=True)) == sorted(self.model.memories.items())
        self.index = CrossCapture()
        self.index.restore(names, slots, ends, tags)

    @rule(tags=tag_lists.filter(len), mode=st.sampled_from(["all", "any"]))
    def match(self, tags, mode):
        assert self.index.match(tags, mode).tolist() == self.model.match(tags, mode)

    @rule(
        query=tag_lists,
        best=st.sampled_from([0.0, 0.7, 3.5]),
        neighbors=st.integers(0, 5),
        memories=st.integers(0, 12),
        allow=st.none() | st.lists(st.integers(0, 400), max_size=300),
    )
    def expand(self, query, best, neighbors, memories, allow):
        slots, scores, pairs = self.index.expand(
            query, best, self.counts, 0.25, neighbors, memories, allow
        )
        expected = self.model.expand(query, best, self.counted, 0.25, neighbors, memories, allow)
        assert scores.dtype == np.float32
        found = zip(slots.tolist(), zip(scores, pairs, strict=True), strict=True)
        assert list(found) == expected

    @invariant()
    def agrees(self):
        compare(self.index, self.model)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)


def test_xcp1_long_lists_agree_with_sets_under_random_changes():
    """Lists in chunks: begun, split, joined and given up at every size."""
    random = np.random.default_rng(3)
    index, held = CrossCapture(), {"a": set(), "b": set()}
    for size in [3000, 400, 2500, 513, 512, 511, 600, 40, 0, 1200]:
        while len(held["a"]) != size:
            slots = random.integers(0, 4000, 50)
            for slot in slots.tolist():
                if len(held["a"]) == size:
                    break
                grow = len(held["a"]) < size
                if grow == (slot in held["a"]):
                    continue
                tags = {"a"} if grow else set()
                if random.random() < 0.3:
                    tags.add("b")
                index.update(slot, sorted(tags))
                for tag, own in held.items():
                    (own.add if tag in tags else own.discard)(slot)
        for tag, own in held.items():
            assert index.slots(tag).tolist() == sorted(own, reverse=True)
        assert index.match(["a", "b"]).tolist() == sorted(held["a"] & held["b"])
        assert index.match(["a", "b"], "any").tolist() == sorted(held["a"] | held["b"])


def test_xcp1_slots_in_order_and_backwards_give_the_same():
    for slots in (range(3000), range(2999, -1, -1)):
        index = CrossCapture()
        for slot in slots:
            index.add(slot, ["x", f"m{slot % 3}"])
        assert index.slots("x").tolist() == list(range(2999, -1, -1))
        assert index.match(["x", "m1"]).tolist() == list(range(1, 3000, 3))


def test_bud3_twelve_bytes_for_a_tag_of_a_memory():
    """BUD-3, BUD-8: 100,000 memories with three tags each, as they come and after a rebuild."""
    random = np.random.default_rng(2)
    names = [f"tag-{i}" for i in range(500)]
    draws = random.zipf(1.2, (100_000, 3)) % 500
    tags = [[names[i] for i in dict.fromkeys(row)] for row in draws.tolist()]
    one_by_one, at_once = CrossCapture(), CrossCapture()
    for slot, own in enumerate(tags):
        one_by_one.add(slot, own)
    at_once.add_many(np.arange(100_000), tags)
    for index in (one_by_one, at_once):
        usage, entries = index.memory_usage(), index.stats()["entries"]
        assert entries == sum(map(len, tags))
        assert 8 * entries <= usage["slots"] + usage["tags"] <= 12 * 1.15 * entries, usage
        assert usage["names"] < 100_000


def counts_of(memories):
    index, counts = CrossCapture(), TagCoActivation()
    for slot, tags in enumerate(memories):
        index.add(slot, tags)
        counts.observe(tags)
    return index, counts


def test_xcp2_affinity_is_a_share_and_not_symmetric():
    index, counts = counts_of([["t", "u"], ["t"], ["t"], ["t"], ["u"]])
    # From t one in four leads to u, from u one in two to t; each has one partner.
    assert index.expand(["t"], 1.0, counts)[1].tolist() == [0.25 * 0.25] * 2
    assert index.expand(["u"], 1.0, counts)[1].tolist() == [0.25 * 0.5] * 4


def test_xcp4_query_tags_are_no_neighbours_and_take_no_place():
    memories = [["t", "q"]] * 3 + [["t", f"u{i}"] for i in range(6)] + [["u0"], ["u5"]]
    index, counts = counts_of(memories)
    _, _, pairs = index.expand(["t", "q"], 1.0, counts)
    assert {u for t, u in pairs if t == "t"} == {f"u{i}" for i in range(5)}
    assert not any(u in ("t", "q") for _, u in pairs)


def test_xcp4_newest_memories_first_and_only_those_allowed():
    index, counts = counts_of([["t", "u"]] + [["u"]] * 1999)
    found = index.expand(["t"], 1.0, counts)
    assert sorted(found[0].tolist()) == list(range(1990, 2000))
    allow = [*range(5, 900, 100), 5000]
    found = index.expand(["t"], 1.0, counts, allow=np.array(allow[::-1], np.uint32))
    assert sorted(found[0].tolist()) == allow[:-1]
    assert index.expand(["t"], 1.0, counts, allow=[])[0].tolist() == []
    assert index.expand(["t"], 1.0, counts, max_memories_per_tag=2)[0].tolist() == [1998, 1999]
    assert index.expand(["t"], 1.0, counts, max_tag_neighbors=0)[0].tolist() == []


def test_xcp5_score_and_the_highest_of_several_ways():
    memories = [["t", "u"], ["t", "u"], ["t", "v"], ["t"], ["u", "v"]]
    index, counts = counts_of(memories)
    slots, scores, pairs = index.expand(["t"], 2.0, counts)
    by_slot = dict(zip(slots.tolist(), zip(scores.tolist(), pairs, strict=True), strict=True))
    through_u = 2.0 * 0.25 * (2 / 4) / math.sqrt(2)
    through_v = 2.0 * 0.25 * (1 / 4) / math.sqrt(2)
    assert by_slot[4] == (pytest.approx(through_u), ("t", "u"))
    assert by_slot[2] == (pytest.approx(through_v), ("t", "v"))
    assert slots.tolist() == [0, 1, 4, 2]  # GEN-4
    assert index.expand(["t"], 2.0, counts, attenuation=0.5)[1].max() == pytest.approx(
        2 * through_u
    )


def test_exp10_alerting_memory_is_found_through_latency():
    index, counts = counts_of([["latency", "p99", "prometheus"], ["p99", "alerting"], ["lunch"]])
    slots, _, pairs = index.expand(["latency"], 1.0, counts)
    assert 1 in slots
    assert ("latency", "p99") in pairs
    assert 2 not in slots


def test_tags_with_equal_hashes_are_apart():
    """COA-1: the index goes by names."""
    one, two = "4xse3zniwn55a", "5pg2sdcpvte2g"
    index, counts = counts_of([[one, "x"], [two, "y"]])
    assert index.slots(one).tolist() == [0]
    assert index.match([one, two]).tolist() == []
    assert index.expand([one], 1.0, counts)[0].tolist() == [0]


def test_a_pruned_table_never_gives_an_affinity_above_one():
    index, counts = CrossCapture(), TagCoActivation(capacity=3)
    for slot, tags in enumerate([["a", "b"], ["a", "c"], ["a", "d"], ["a", "e"], ["a", "e"]]):
        index.add(slot, tags)
        counts.observe(tags)
    for tag in "abcde":
        _, scores, _ = index.expand([tag], 1.0, counts)
        assert (scores <= 0.25).all()


def test_bad_arguments_are_named_and_change_nothing():
    index, counts = counts_of([["a", "b"], ["a"]])
    for call, error, word in [
        (lambda: index.add(0, ["c"]), ValueError, "slot 0"),
        (lambda: index.add(-1, ["c"]), ValueError, "slot"),
        (lambda: index.add(2**32 - 1, ["c"]), ValueError, "slot"),
        (lambda: index.add("1", ["c"]), TypeError, "slot"),
        (lambda: index.add(5, "abc"), TypeError, "tags"),
        (lambda: index.add(5, ["c", ""]), ValueError, "tags"),
        (lambda: index.add(5, ["c", "\ud800"]), ValueError, "tag"),
        (lambda: index.update(5, [f"t{i}" for i in range(1001)]), ValueError, "1000"),
        (lambda: index.add_many([7, 8], [["c"]]), ValueError, "tags"),
        (lambda: index.add_many([7, 0], [["c"], ["d"]]), ValueError, "slot 0"),
        (lambda: index.add_many([7, 7], [["c"], ["d"]]), ValueError, "slot 7"),
        (lambda: index.add_many([1.5], [["c"]]), TypeError, "slots"),
        (lambda: index.restore(["c"], [7], [1], [0]), ValueError, "tags already"),
        (lambda: index.remove(None), TypeError, "slot"),
        (lambda: index.match([]), ValueError, "tags"),
        (lambda: index.match(["a"], "most"), ValueError, "mode"),
        (lambda: index.expand(["a"], 1.0, index), TypeError, "coactivation"),
        (lambda: index.expand(["a"], math.nan, counts), ValueError, "best_score"),
        (lambda: index.expand(["a"], -1, counts), ValueError, "best_score"),
        (lambda: index.expand(["a"], 1, counts, attenuation=2), ValueError, "attenuation"),
        (lambda: index.expand(["a"], 1, counts, max_tag_neighbors=-1), ValueError, "neighbors"),
        (lambda: index.expand(["a"], 1, counts, allow=[-1]), ValueError, "allow"),
    ]:
        with pytest.raises(error, match=word):
            call()
    assert index.tags() == ["a", "b"]
    assert (len(index), index.stats()["entries"]) == (2, 3)
    assert index.tags(7) == index.tags(5) == []


@pytest.mark.parametrize(
    ("table", "error", "word"),
    [
        (("ab", [1], [1], [0]), TypeError, "names"),
        (([1], [1], [1], [0]), TypeError, "names"),
        ((["A"], [1], [1], [0]), ValueError, "folded"),
        ((["a", ""], [1], [1], [0]), ValueError, "names"),
        ((["a"], [1], [1, 2], [0, 0]), ValueError, "ends"),
        ((["a"], [1], [2], [0]), ValueError, "ends"),
        ((["a"], [1, 2], [0, 1], [0]), ValueError, "ends"),
        ((["a"], [1, 2], [2, 1], [0]), ValueError, "ends"),
        ((["a"], [1], [1001], [0] * 1001), ValueError, "1000"),
        ((["a"], [2, 1], [1, 2], [0, 0]), ValueError, "slots"),
        ((["a"], [1, 1], [1, 2], [0, 0]), ValueError, "slots"),
        ((["a"], [2**32 - 1], [1], [0]), ValueError, "slots"),
        ((["a"], [1], [1], [1]), ValueError, "tags"),
        ((["a"], [1], [1], [-1]), ValueError, "tags"),
        ((["a"], [1], [2], [0, 0]), ValueError, "twice"),
        ((["a"], [1.5], [1], [0]), TypeError, "slots"),
    ],
)
def test_a_table_that_does_not_belong_together_is_refused(table, error, word):
    index = CrossCapture()
    with pytest.raises(error, match=word):
        index.restore(*table)
    assert (len(index), index.tags()) == (0, [])
    index.add(1, ["a"])
    assert index.match(["a"]).tolist() == [1]


def test_xcp1_a_table_of_long_lists_and_of_none():
    index, again = CrossCapture(), CrossCapture()
    again.restore(*index.table())
    assert len(again) == 0
    random = np.random.default_rng(5)
    slots = np.unique(random.integers(0, 20_000, 9000))
    for slot in slots.tolist():
        index.add(slot, ["all", *(f"m{n}" for n in (2, 3, 40) if slot % n == 0)])
    again.restore(*index.table())
    assert again.stats()["entries"] == index.stats()["entries"]
    for part in random.permutation(slots).tolist()[:2000]:  # the lists are such as can be changed
        for one in (index, again):
            one.update(part, ["new"] if part % 2 else [])
    for tag in index.tags():
        assert again.slots(tag).tolist() == index.slots(tag).tolist()
    assert again.tags() == index.tags()


def test_readers_beside_a_writer_see_whole_transactions():
    index = CrossCapture()
    both, faults, stop = ["a", "b"], [], threading.Event()

    def look():
        while not stop.is_set():
            for slots in (
                index.match(["a", "b"]),
                index.match(["a", "b"], "any"),
                index.slots("b"),
            ):
                if len(slots) % 5:
                    faults.append(slots)

    threads = [threading.Thread(target=look) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for i in range(1000):
            index.add_many(np.arange(5) * 1000 + i, [both] * 5)
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not faults
    assert len(index) == 5000


def test_tags_among_words_are_those_of_one_to_three_in_a_row():
    index = CrossCapture()
    index.add_many([1, 2, 3], [["new york", "a"], ["york"], ["one two three", "\u00e9t\u00e9"]])
    around = " .,;:!?\"'()[]{}"
    rng = np.random.default_rng(7)
    known = [
        "new",
        "york",
        "(york)",
        "a",
        "a.",
        "one",
        "two",
        "three",
        "\u00e9t\u00e9!",
        "...",
        "b",
    ]
    for _ in range(100):
        words = rng.choice(known, int(rng.integers(0, 12))).tolist()
        expected = {}
        for place in range(len(words)):
            for length in range(1, min(3, len(words) - place) + 1):
                tag = " ".join(words[place : place + length]).strip(around)
                if tag and index.n(tag):
                    expected[tag] = None
        assert index.among(words, 3, around) == list(expected)
