"""The record store against a plain model, and each label of sections B and C that lives there."""

import threading
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference import records as plain
from spector import CorruptionError, StorageError, _core
from spector.records import (
    FAST_FORGET,
    SLOW_FORGET,
    Decay,
    RecordStore,
    ScoringOptions,
    Surprise,
    arousal_factor,
    decay_bucket,
    importance,
    novelty,
    reconsolidated,
    strength_increment,
    tag_filter,
)
from spector.records.store import _FIELDS, COLUMNS, FIRST_TIME, LAST_TIME, LEARNED, flags_of

HOUR, DAY = plain.HOUR, plain.DAY
NOW = 1_900_000_000_000
SLOTS = 14
DIMENSIONS = 5  # not a whole block of any register


def core_options(options):
    values = asdict(options)
    return ScoringOptions(**values | {"decay": Decay(*options.decay)})


def random_fields(rng):
    fields = {
        "type": rng.choice(["working", "episodic", "semantic", "procedural"]),
        "modality": rng.choice(["text", "image", "audio", "video"]),
        "consolidated": rng.random() < 0.5,
        "pinned": rng.random() < 0.2,
        "resolved": rng.random() < 0.8,
        "contradicted": rng.random() < 0.2,
        "valence": rng.integers(-128, 128),
        "arousal": rng.integers(0, 256),
        "importance": rng.choice([0.05, 0.5, 0.99, 1.0, 5.5, 10.0]),
        "timestamp": NOW - int(rng.choice([-DAY, 0, HOUR, 30 * DAY, 5 * 365 * DAY, 9**13])),
        "explicit_recalls": rng.choice([0, 0, 0, 1, 4, 9]),
        "passive_recalls": rng.choice([0, 0, 2, 3, 7, 2**32 - 1]),
        "strength": rng.choice([0.01, 1.0, 1.7, 5.0]),
        "profile": rng.integers(0, 256),
        "alpha": rng.integers(0, 256),
        "beta": rng.integers(0, 256),
        "last_passive_ltp": NOW - rng.integers(0, DAY),
        "surprise": rng.normal(),
        "last_profile": rng.integers(0, 256),
    }
    return {name: getattr(value, "item", lambda v=value: v)() for name, value in fields.items()}


def random_slots(rng, share=0.6):
    return np.flatnonzero(rng.random(SLOTS + 2) < share).tolist()


def random_options(rng):
    """Each restriction now and then."""

    def now_and_then(name, value):
        return {name: value} if rng.random() < 0.25 else {}

    given = {}
    given |= now_and_then("include_contradictions", True)
    given |= now_and_then("min_timestamp", NOW - int(rng.choice([HOUR, 60 * DAY])))
    given |= now_and_then("max_timestamp", NOW - int(rng.choice([HOUR, 60 * DAY])))
    given |= now_and_then("allow", random_slots(rng))
    given |= now_and_then("tags", [random_slots(rng) for _ in range(rng.integers(1, 4))])
    given |= now_and_then("tag_match", "any")
    given |= now_and_then("hyperfocus", random_slots(rng, 0.8))
    given |= now_and_then("boost", float(rng.choice([1.0, 3.5])))
    given |= now_and_then("min_valence", int(rng.integers(-128, 20)))
    given |= now_and_then("max_valence", int(rng.integers(-20, 128)))
    given |= now_and_then("min_importance", float(rng.choice([0.99, 1.0, 6.0])))
    given |= now_and_then("types", list(rng.choice(["working", "episodic", "semantic"], 2)))
    given |= now_and_then("staleness", False)
    given |= now_and_then("strictness", float(rng.choice([0.01, 10.0, 100.0])))
    given |= now_and_then("alpha", float(rng.random()))
    given |= now_and_then("beta", float(rng.random() * 5))
    given |= now_and_then("score_combine", "additive")
    given |= now_and_then("decay", (float(rng.choice([0.05, 1])), float(rng.choice([0, 0.5]))))
    given |= now_and_then("query_valence", int(rng.integers(-128, 128)))
    given |= now_and_then("lateral_distance", float(rng.choice([0.5, 1.2])))
    return plain.Options(NOW, **given)


def check_ranking(answer, expected):
    """Slots, scores, similarities, distances and decays are equal, bit for bit."""
    standard, lateral, counts = expected
    rows = standard + lateral
    assert answer.slots.tolist() == [row[0] for row in rows]
    assert answer.lateral.tolist() == [False] * len(standard) + [True] * len(lateral)
    arrays = (answer.scores, answer.similarities, answer.distances, answer.decays)
    for array, column in zip(arrays, range(1, 5), strict=True):
        assert array.tolist() == [float(row[column]) for row in rows]
    assert {name: answer.counts[name] for name in counts} == counts


class Histories(RuleBasedStateMachine):
    """Every change, then everything that can be read (GEN-4, HDR-1, SCO-1 to SCO-15, DEN-1)."""

    seeds = st.integers(0, 2**32 - 1)

    @initialize(
        similarity=st.sampled_from(["cosine", "dot", "euclidean"]),
        storage=st.sampled_from(["int8", "f32"]),
        seed=seeds,
    )
    def begin(self, similarity, storage, seed):
        self.store = RecordStore(DIMENSIONS, similarity, storage)
        self.model = plain.Records(DIMENSIONS, similarity, storage)
        self.put(seed)

    @rule(seed=seeds)
    def put(self, seed):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 6))
        slots = rng.integers(0, SLOTS, n)  # twice the same now and then
        fields = [random_fields(rng) for _ in range(n)]
        vectors = None
        if rng.random() < 0.8:
            # Few different values: equal scores now and then.
            vectors = rng.integers(-3, 4, (n, DIMENSIONS)) * 0.5 + 0.25
        self.store.put(slots, vectors, **{name: [f[name] for f in fields] for name in fields[0]})
        for i, slot in enumerate(slots.tolist()):
            self.model.put(slot, None if vectors is None else vectors[i], **fields[i])

    @rule(seed=seeds)
    def update(self, seed):
        rng = np.random.default_rng(seed)
        live = sorted(self.model.records)
        if not live:
            return
        slots = rng.choice(live, int(rng.integers(1, 4)))
        fields = random_fields(rng)
        names = [name for name in fields if rng.random() < 0.2]
        if ("alpha" in names) != ("beta" in names):
            names += ["alpha", "beta"]
        given = {name: fields[name] for name in names}
        self.store.update_header(slots, **given)
        for slot in slots.tolist():
            self.model.update(slot, **given)

    @rule(slots=st.lists(st.integers(0, SLOTS + 3), max_size=4))
    def remove(self, slots):
        assert self.store.remove(np.array(slots, np.uint32)) == sum(
            self.model.remove(slot) for slot in slots
        )

    @rule(slots=st.lists(st.integers(0, SLOTS + 3) | st.just(2**32 - 2), max_size=6))
    def contains(self, slots):
        found = self.store.contains(np.array(slots, np.uint32))
        assert found.tolist() == [slot in self.model.records for slot in slots]

    @rule()
    def compact(self):
        self.store.compact()
        assert self.store.memory_usage()["dead_vector_bytes"] == 0

    @rule(seed=seeds)
    def refused(self, seed):
        """What is refused changes nothing."""
        rng = np.random.default_rng(seed)
        wrong = {
            "importance": [1.0, 10.5],
            "strength": [1.0, float("nan")],
            "valence": [0, 128],
            "arousal": [256, 0],
            "timestamp": [0, 10**18],
        }
        name = rng.choice(list(wrong))
        with pytest.raises(ValueError, match=name):
            self.store.put([0, 1], rng.normal(size=(2, DIMENSIONS)), **{name: wrong[name]})
        with pytest.raises(ValueError, match=r"vectors\[1\] must be finite"):
            self.store.put([0, 1], [[1.0] * DIMENSIONS, [np.inf] * DIMENSIONS])
        with pytest.raises(IndexError, match=f"no record in slot {SLOTS + 5}"):
            self.store.update_header([*self.model.records, SLOTS + 5], valence=1)

    @rule(seed=seeds)
    def reopened(self, seed):
        path = self.folder / "records.seg"
        tags = (
            np.array([_core.hash64("a"), _core.hash64("b")], np.uint64),
            np.array([0, len(self.model.records), len(self.model.records)]),
            np.array(sorted(self.model.records), np.uint32),
        )
        self.store.save(path, tags)
        self.store = RecordStore.load(path, tags)

    @rule(seed=seeds, k=st.sampled_from([1, 2, 3, 10, 1000]), cognitive=st.booleans())
    def ask(self, seed, k, cognitive):
        rng = np.random.default_rng(seed)
        options = random_options(rng)
        query = rng.integers(-3, 4, DIMENSIONS) * 0.5 + 0.25
        core = core_options(options)
        ask = self.store.search if cognitive else self.store.similar
        check_ranking(ask(query, core, k), self.model.ranked(query, options, k, cognitive))

        live = sorted(self.model.records)
        factors, decays = self.store.factors(live, core)
        expected = [self.model.factor(slot, options) for slot in live]
        assert list(zip(factors.tolist(), decays.tolist(), strict=True)) == [
            (float(factor), float(decay)) for factor, decay in expected
        ]
        everything = list(range(SLOTS + 3))
        assert self.store.passes(everything, core).tolist() == [
            slot in self.model.records and self.model.passes(slot, options) for slot in everything
        ]
        types = options.types or ["working", "semantic"]
        nearest = self.model.nearest(query, types)
        assert self.store.nearest(query, types) == (nearest and (nearest[0], float(nearest[1])))

    @invariant()
    def same(self):
        live = sorted(self.model.records)
        assert len(self.store) == len(live)
        assert self.store.slots().tolist() == live
        for slot in live:
            assert self.store.header(slot) == self.model.header(slot)
            stored = self.model.records[slot].stored
            vector = self.store.vector(slot)
            assert (vector is None) == (stored is None)
            assert vector is None or vector.tobytes() == stored.tobytes()


def test_random_histories(tmp_path_factory):
    Histories.folder = tmp_path_factory.mktemp("records")
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Histories,
        settings=settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True),
    )


# Larger stores: many blocks, chunks and kernels.


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(5)
    n, d = 3000, 100
    model, slots = {}, rng.choice(5000, n, replace=False)
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    fields = [random_fields(rng) for _ in range(n)]
    columns = {name: [f[name] for f in fields] for name in fields[0]}
    for storage in ("int8", "f32"):
        reference = plain.Records(d, "cosine", storage)
        for i, slot in enumerate(slots.tolist()):
            reference.put(slot, vectors[i], **fields[i])
        store = RecordStore(d, "cosine", storage)
        store.put(slots, vectors, **columns)
        model[storage] = store, reference
    return model


@pytest.mark.parametrize("level", _core.available_simd_levels())
@pytest.mark.parametrize("storage", ["int8", "f32"])
def test_gen_3_and_sco_7_the_best_are_those_of_a_plain_scan_on_every_level(large, level, storage):
    """Bounds skip work, never a result; and vectors are read for survivors only."""
    store, model = large[storage]
    rng = np.random.default_rng(9)
    before = _core.simd_level()
    _core.set_simd_level(level)
    try:
        for share in (None, 0.004, 0.3):
            options = plain.Options(NOW, types=["semantic", "working"])
            if share is not None:
                options.allow = np.flatnonzero(rng.random(5000) < share).tolist()
            query = rng.normal(size=100)
            for cognitive in (False, True):
                ask = store.search if cognitive else store.similar
                answer = ask(query, core_options(options), 10)
                check_ranking(answer, model.ranked(query, options, 10, cognitive))
                assert answer.counts["exact"] <= answer.counts["vectors"]
                assert answer.counts["vectors"] <= answer.counts["important"]
                assert answer.counts["important"] < answer.counts["in_valence"]
    finally:
        _core.set_simd_level(before)


def test_sco_7_nothing_is_read_that_does_not_survive(large):
    store, _ = large["int8"]
    options = ScoringOptions(NOW, min_importance=10, min_valence=120)
    answer = store.search(np.ones(100), options, 10)
    counts = answer.counts
    assert counts["candidates"] == 3000
    assert counts["candidates"] > counts["in_time"] > counts["in_valence"] > counts["important"] > 0
    assert counts["vectors"] == counts["important"]  # each has one
    nothing = store.search(np.ones(100), ScoringOptions(NOW, types=[]), 10)
    assert (len(nothing), nothing.counts["vectors"]) == (0, 0)


# Labels, one by one.


def one(vector=(1.0, 0.0), **fields):
    store = RecordStore(2, "cosine", "f32")
    store.put([0], [vector], **{"timestamp": NOW, "importance": 10.0} | fields)
    return store


def test_hdr_1_fields_round_trip_and_hdr_2_resolved_is_the_default():
    store = RecordStore(0)
    store.put(
        range(4),
        type=["working", "episodic", "semantic", "procedural"],
        modality=["text", "image", "audio", "video"],
        pinned=[True, False, True, False],
    )
    assert [store.header(slot)["type"] for slot in range(4)] == [
        "working",
        "episodic",
        "semantic",
        "procedural",
    ]
    assert store.headers([0, 1, 2, 3])["flags"].tolist() == [
        0b00110000,
        0b01100010,
        0b10110100,
        0b11100110,
    ]
    store.update_header([0, 3], resolved=False)
    assert [store.header(slot)["resolved"] for slot in range(4)] == [False, True, True, False]
    assert store.header(0)["pinned"]
    assert store.header(3)["modality"] == "video"


def test_a_table_is_stored_as_its_fields():
    columns = {
        "valence": [-128, 127, 3],
        "arousal": [0, 255, 6],
        "importance": [0.05, 10.0, 0.3],
        "timestamp": [FIRST_TIME, LAST_TIME, NOW],
        "explicit_recalls": [0, 2**32 - 1, 7],
        "strength": [0.01, 5.0, 1.3],
        "passive_recalls": [2**32 - 1, 0, 1],
        "last_passive_ltp": [LAST_TIME, 0, NOW],
        "surprise": [0.0, -1e30, 2.5],
    }
    assert tuple(columns) == COLUMNS
    types, switches = ["working", "procedural", "semantic"], [True, False, True]
    vectors = np.eye(3, DIMENSIONS)
    plainly, table = RecordStore(DIMENSIONS), RecordStore(DIMENSIONS)
    slots = [4, 1, 9]
    plainly.put(
        slots,
        vectors,
        **columns,
        type=types,
        consolidated=switches,
        pinned=switches[::-1],
        resolved=[False, True, True],
        contradicted=switches,
    )
    flags = [
        flags_of(kind, consolidated=a, pinned=b, resolved=c)
        for kind, a, b, c in zip(types, switches, switches[::-1], [False, True, True], strict=True)
    ]
    rows = list(zip(*columns.values(), strict=True))
    table.put_table(slots, rows, flags, switches, vectors)
    assert (table.headers([1, 4, 9]) == plainly.headers([1, 4, 9])).all()
    assert all((table.vector(slot) == plainly.vector(slot)).all() for slot in slots)
    for column, name in enumerate(COLUMNS):
        low, high = _FIELDS[name].low, _FIELDS[name].high
        for bad in (high * 1.5 + 1, low - abs(low) - 1, np.nan):
            wrong = [list(row) for row in rows]
            wrong[1][column] = bad
            wrong = [tuple(row) for row in wrong]
            with pytest.raises(ValueError, match=name):
                table.put_table(slots, wrong, flags, switches, vectors)
            with pytest.raises(ValueError, match=name):
                table.update_table(slots, wrong)
    assert (table.headers([1, 4, 9]) == plainly.headers([1, 4, 9])).all()
    with pytest.raises(IndexError, match="no record in slot 5"):
        table.update_table([4, 5], rows[:2])
    table.update_table([9, 4], [rows[0], rows[2]])
    of_slot = {4: 2, 9: 0}
    for slot, row in of_slot.items():
        plainly.update_header([slot], **{name: columns[name][row] for name in LEARNED})
    assert (table.headers([1, 4, 9]) == plainly.headers([1, 4, 9])).all()


def test_hdr_3_arousal_follows_valence_and_strength_is_1():
    store = RecordStore(0)
    store.put([0, 1, 2], valence=[-128, 20, 0])
    assert [store.header(slot)["arousal"] for slot in range(3)] == [255, 40, 0]
    store.put([3], valence=100, arousal=7)
    assert (store.header(3)["arousal"], store.header(3)["strength"]) == (7, 1.0)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("importance", 0.04, r"\[0.05, 10\]"),
        ("importance", 10.1, r"\[0.05, 10\]"),
        ("importance", float("nan"), r"\[0.05, 10\]"),
        ("strength", 0.0, r"\[0.01, 5\]"),
        ("strength", 5.01, r"\[0.01, 5\]"),
        ("valence", -129, r"\[-128, 127\]"),
        ("valence", 128, r"\[-128, 127\]"),
        ("arousal", -1, r"\[0, 255\]"),
        ("arousal", 256, r"\[0, 255\]"),
        ("explicit_recalls", 2**32, r"\[0, 4294967295\]"),
        ("passive_recalls", -1, r"\[0, 4294967295\]"),
        ("surprise", float("inf"), "surprise must be in"),
        ("timestamp", 253_402_300_800_000, "timestamp must be in"),
        ("type", "episode", "working, episodic, semantic, procedural"),
    ],
)
def test_gen_9_out_of_range_is_refused_and_never_wrapped(name, value, allowed):
    store = RecordStore(0)
    store.put([0])
    before = store.header(0)
    for change in (store.put, store.update_header):
        with pytest.raises(ValueError, match=allowed):
            change([0], **{name: value})
    assert store.header(0) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("valence", 1.5), ("pinned", 1), ("importance", "5"), ("type", 2), ("colour", 1)],
)
def test_wrong_types_are_named(name, value):
    with pytest.raises(TypeError, match=name):
        RecordStore(0).put([0], **{name: value})


def test_tag_1_bits():
    assert tag_filter(["database"]) == 1 << 35 | 1 << 4 | 1 << 37
    assert tag_filter(["sql"]) == 1 << 59 | 1 << 60 | 1 << 61
    assert tag_filter(["sql", "database"]) == tag_filter(["sql"]) | tag_filter(["database"])
    for i in range(1000):
        assert tag_filter([f"tag-{i}"]).bit_count() == 3


def test_tag_3_false_positives_of_the_word():
    for n, expected in ((5, 0.009), (10, 0.053), (20, 0.23), (50, 0.74)):
        hits = tries = 0
        for record in range(120):
            word = tag_filter(f"r{record}-{i}" for i in range(n))
            asked = [tag_filter([f"q{record}-{i}"]) for i in range(100)]
            hits += sum(bits & word == bits for bits in asked)
            tries += len(asked)
        assert hits / tries == pytest.approx(expected, rel=0.2)


def test_tag_2_and_tag_4_tags_are_exact():
    store = RecordStore(2, "cosine", "f32")
    store.put(range(4), [[1, 0]] * 4, timestamp=NOW)
    tags = [[0, 1], [1, 2]]
    assert store.search([1, 0], ScoringOptions(NOW, tags=tags)).slots.tolist() == [1]
    some = store.search([1, 0], ScoringOptions(NOW, tags=tags, tag_match="any"))
    assert some.slots.tolist() == [1, 0, 2]
    base = store.search([1, 0], ScoringOptions(NOW), 4).scores[0]
    assert some.scores.tolist() == pytest.approx([base * 1.3, base * 1.15, base * 1.15])
    assert len(store.search([1, 0], ScoringOptions(NOW, tags=[[0], []]))) == 0


def test_sco_1_contradicted_and_time_bounds_are_inclusive():
    store = one(contradicted=True)
    assert len(store.search([1, 0], ScoringOptions(NOW))) == 0
    assert len(store.search([1, 0], ScoringOptions(NOW, include_contradictions=True))) == 1
    store.update_header([0], contradicted=False)
    for low, high, found in [
        (NOW, NOW, 1),
        (NOW + 1, None, 0),
        (None, NOW - 1, 0),
        (NOW, None, 1),
        (None, NOW, 1),
    ]:
        options = ScoringOptions(NOW, min_timestamp=low, max_timestamp=high)
        assert len(store.search([1, 0], options)) == found
        assert store.passes([0], options).tolist() == [bool(found)]


def test_sco_2_and_sco_14_hyperfocus_gates_and_boosts():
    store = RecordStore(2, "cosine", "f32")
    store.put([0, 1], [[1, 0]] * 2, timestamp=NOW, importance=10.0)
    assert store.search([1, 0], ScoringOptions(NOW)).scores.tolist() == [1.0, 1.0]
    focused = store.search([1, 0], ScoringOptions(NOW, hyperfocus=[1], boost=2.5))
    assert focused.slots.tolist() == [1]
    assert focused.scores.tolist() == [2.5]


def test_sco_3_valence_bounds_are_inclusive():
    store = one(valence=-10)
    for low, high, found in [(-10, 127, 1), (-9, 127, 0), (-128, -10, 1), (-128, -11, 0)]:
        options = ScoringOptions(NOW, min_valence=low, max_valence=high)
        assert len(store.search([1, 0], options)) == found


def test_sco_4_staleness_is_for_the_dense_list_alone():
    stale = {"timestamp": NOW - 5 * 365 * DAY, "importance": 0.99}
    options = ScoringOptions(NOW)
    assert len(one(**stale).similar([1, 0], options)) == 0
    assert one(**stale).passes([0], options).tolist() == [True]  # TSM-7
    for but in [
        {"timestamp": stale["timestamp"] + 1},
        {"importance": 1.0},
        {"pinned": True},
        {"resolved": False},
        {"explicit_recalls": 1},
        {"passive_recalls": 3},
    ]:
        assert len(one(**stale | but).similar([1, 0], options)) == 1, but
    assert len(one(**stale, passive_recalls=2).similar([1, 0], options)) == 0
    assert len(one(**stale).similar([1, 0], ScoringOptions(NOW, staleness=False))) == 1
    assert len(one(**stale).similar([1, 0], ScoringOptions(NOW, hyperfocus=[0]))) == 1


def test_sco_5_and_sco_6_by_hand():
    store = one([0.0, 1.0], importance=5.0, strength=2.0, timestamp=NOW - 4 * HOUR)
    answer = store.search([1, 0], ScoringOptions(NOW, strictness=2, alpha=3, beta=1))
    similarity = 1 / (1 + 2 * 2**0.5)
    value = 0.5 * 7**-0.15 * 2**0.3
    assert answer.similarities[0] == pytest.approx(similarity, rel=1e-5)
    assert answer.distances[0] == pytest.approx(2**0.5, rel=1e-5)
    assert answer.scores[0] == pytest.approx(similarity * (0.75 + 0.25 * value), rel=1e-5)
    options = ScoringOptions(NOW, strictness=2, alpha=3, beta=1, score_combine="additive")
    added = store.search([1, 0], options)
    assert added.scores[0] == pytest.approx(0.75 * similarity + 0.25 * value, rel=1e-5)
    factor, decay = store.factors([0], options)  # AM-11
    assert factor[0] == pytest.approx(0.75 + 0.25 * value, rel=1e-5)
    assert decay[0] == answer.decays[0] == pytest.approx(7**-0.15, rel=1e-5)


def test_alpha_and_age_change_scores():
    """Both had no effect in a scorer whose records were all unresolved."""
    store = one([0.8, 0.6], timestamp=NOW - 300 * DAY)
    fresh = one([0.8, 0.6])
    scores = [store.search([1, 0], ScoringOptions(NOW, alpha=a, beta=1)).scores[0] for a in (0, 1)]
    assert scores[0] < scores[1]
    assert scores[1] < fresh.search([1, 0], ScoringOptions(NOW, alpha=1, beta=1)).scores[0]


def test_sco_8_valence_alignment():
    store = one(valence=-100)
    plainly = store.search([1, 0], ScoringOptions(NOW)).scores[0]
    aligned = store.search([1, 0], ScoringOptions(NOW, query_valence=-128)).scores[0]
    assert aligned == pytest.approx(plainly * (1 - 28 / 255))


TABLES = {
    Decay(): "1 .747 .600 .504 .440 .364 .303 .268 .242 .217 .191 .172",
    SLOW_FORGET: "1 .856 .762 .694 .645 .584 .529 .496 .469 .443 .414 .392",
    FAST_FORGET: "1 .558 .360 .254 .193 .133 .092 .072 .058 .05 .05 .05",
}


@pytest.mark.parametrize("table", TABLES)
def test_decay_tables(table):
    expected = [float(x) for x in TABLES[table].split()]
    assert table.multipliers == pytest.approx(expected, abs=5.1e-4)
    assert table.multiplier(3) == table.multipliers[3]


def test_decay_buckets_by_age():
    """Upper bounds are exclusive; a timestamp in the future has age 0."""
    assert [decay_bucket(age) for age in (-(2**62), -1, 0, 1)] == [0, 0, 0, 0]
    for i, end in enumerate(plain.ENDS):
        assert (decay_bucket(end - 1), decay_bucket(end)) == (i, i + 1)
    for power in range(63):
        for age in (2**power - 1, 2**power):
            if age <= 2**62:
                assert decay_bucket(age) == plain.bucket(age)
    assert decay_bucket(2**62) == 11


@pytest.mark.parametrize("bad", [{"exponent": 0.04}, {"exponent": 1.1}, {"floor": 0.6}])
def test_sco_9_ranges(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Decay(**bad)
    with pytest.raises(ValueError, match=next(iter(bad))):
        _core.decay_multipliers(**{"exponent": 0.15, "floor": 0.1} | bad)


def test_sco_10_reconsolidation():
    for bucket in range(12):
        for explicit in (0, 1, 2, 3, 5, 6, 2**32 - 1):
            for passive in (0, 2, 3, 5, 6, 9, 2**32 - 1):
                found = reconsolidated(bucket, explicit, passive)
                assert found == plain.reconsolidated(bucket, explicit, passive)
    assert reconsolidated(11, 0, 3) == 10
    assert reconsolidated(11, 1, 9) == 3


def test_sco_11_arousal():
    expected = [(0, 1), (63, 1), (64, 1.15), (127, 1.15), (128, 1.35), (191, 1.35), (192, 1.65)]
    for arousal, factor in [*expected, (255, 1.65)]:
        assert arousal_factor(arousal) == pytest.approx(factor)
    old = NOW - 2 * HOUR
    decays = [
        one(timestamp=old, arousal=a).factors([0], ScoringOptions(NOW))[1][0] for a in (0, 255)
    ]
    assert decays == pytest.approx([0.7469, 1.0], abs=1e-4)  # never above 1


def test_sco_12_bucket_0_for_unresolved_pinned_and_focused():
    old = {"timestamp": NOW - 400 * DAY}
    options = ScoringOptions(NOW)
    assert one(**old).factors([0], options)[1][0] < 0.3
    assert one(**old, resolved=False).factors([0], options)[1][0] == 1
    assert one(**old, pinned=True).factors([0], options)[1][0] == 1
    focused = ScoringOptions(NOW, hyperfocus=[0])
    assert one(**old).factors([0], focused)[1][0] == 1
    assert one(**old).factors([0], ScoringOptions(NOW, hyperfocus=[7]))[1][0] < 0.3


def test_sco_13_strength_increment():
    assert strength_increment(1.0) == 0
    assert strength_increment(Decay().multiplier(11)) == pytest.approx(0.0828, abs=1e-4)


def test_sco_15_lateral():
    store = RecordStore(2, "cosine", "f32")
    angles = np.array([0.0, 0.5, 1.5, 2.0, 2.5, 3.0])
    store.put(
        range(6), np.stack([np.cos(angles), np.sin(angles)], 1), timestamp=NOW, importance=5.0
    )
    options = ScoringOptions(NOW, lateral_distance=1.2)
    answer = store.search([1, 0], options, 6)
    assert answer.slots.tolist() == [0, 1, 5, 4]  # max(1, 6 div 3) lateral ones, at the end
    assert answer.lateral.tolist() == [False, False, True, True]
    distance = 2 * np.sin(1.5)
    assert answer.scores[2] == pytest.approx(distance / (1 + distance) * 0.5, rel=1e-5)
    # Without an overlap of a half a record is not lateral.
    third = ScoringOptions(NOW, lateral_distance=1.2, tags=[[5], [0, 1], [0, 1]], tag_match="any")
    assert store.search([1, 0], third, 6).lateral.tolist() == [False] * 3


def test_gen_4_ties_by_slot():
    store = RecordStore(2, "cosine", "int8")
    store.put([9, 3, 700, 5, 1], [[1, 1]] * 5, timestamp=NOW)
    store.put([3], [[1, 1]], timestamp=NOW)  # an update keeps its place
    for k in (1, 2, 3, 5):
        assert store.search([1, 1], ScoringOptions(NOW), k).slots.tolist() == [1, 3, 5, 9, 700][:k]


def test_den_1_spaces():
    vectors = [[3, 0], [0, 0.5], [0.5, 0.5]]
    for similarity, expected in (
        ("cosine", [0, 2, 1]),
        ("dot", [0, 2, 1]),
        ("euclidean", [2, 1, 0]),
    ):
        store = RecordStore(2, similarity, "f32")
        store.put(range(3), vectors)
        assert store.similar([1, 0.1], ScoringOptions(NOW)).slots.tolist() == expected
        assert [store.header(slot)["norm"] for slot in range(3)] == pytest.approx(
            [3, 0.5, 0.5**0.5]
        )
    assert store.similar([0, 0], ScoringOptions(NOW)).slots[0] == 1
    cosine = RecordStore(2, "cosine", "f32")
    with pytest.raises(ValueError, match=r"vectors\[1\] must not be zero"):
        cosine.put([0, 1], [[1, 0], [0, 0]])
    assert len(cosine) == 0
    cosine.put([0], [[1, 0]])
    with pytest.raises(ValueError, match="query must not be zero"):
        cosine.similar([0, 0], ScoringOptions(NOW))
    with pytest.raises(ValueError, match="query must have 2 dimensions, not 3"):
        cosine.similar([1, 0, 0], ScoringOptions(NOW))
    with pytest.raises(ValueError, match=r"vectors must have the shape \(1, 2\)"):
        cosine.put([0], [[1, 0, 0]])
    with pytest.raises(ValueError, match="no vectors"):
        RecordStore(0).similar([], ScoringOptions(NOW))


def test_den_1_dot_ranks_all_numbers():
    store = RecordStore(1, "dot", "f32")
    values = [-1000.0, -1.0, -0.001, 0.0, 0.001, 1.0, 1000.0, 1001.0]
    store.put(range(8), [[v] for v in values])
    answer = store.similar([1.0], ScoringOptions(NOW))
    assert answer.slots.tolist() == list(range(7, -1, -1))
    assert np.all((answer.similarities > 0) & (answer.similarities <= 1))


def test_den_3_removed_and_replaced_vectors_do_not_come_back():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(300, 16))
    store = RecordStore(16)
    store.put(range(300), vectors)
    store.put(range(0, 300, 2), rng.normal(size=(150, 16)))
    store.remove(range(1, 300, 4))
    for slot in range(0, 300, 7):
        found = store.similar(vectors[slot], ScoringOptions(NOW), 1)
        kept = slot % 2 == 1 and slot % 4 != 1
        assert (found.slots[0] == slot and found.distances[0] < 0.05) == kept
    assert store.memory_usage()["dead_vector_bytes"] <= 0.25 * 64 * 300


@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_den_4_int8_is_at_most_half_a_step_off(similarity):
    rng = np.random.default_rng(2)
    vectors = (rng.normal(size=(200, 96)) * rng.uniform(0.001, 1000, (200, 1))).astype(np.float32)
    exact, coded = RecordStore(96, similarity, "f32"), RecordStore(96, similarity, "int8")
    for store in (exact, coded):
        store.put(range(200), vectors)
    for slot in range(200):
        step = np.abs(exact.vector(slot)).max() / 127
        assert np.abs(exact.vector(slot) - coded.vector(slot)).max() <= step * 0.5001
    if similarity == "euclidean":
        coded.put([0], [[0.0] * 96])
        assert coded.vector(0).tolist() == [0.0] * 96


def test_den_4_recall_of_int8_against_f32():
    """0.98 of the ten nearest among clustered vectors."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(60, 384))
    vectors = (centres[rng.integers(60, size=6000)] + 0.7 * rng.normal(size=(6000, 384))).astype(
        "f4"
    )
    exact, coded = RecordStore(384, storage="f32"), RecordStore(384, storage="int8")
    for store in (exact, coded):
        store.put(range(6000), vectors)
    options = ScoringOptions(NOW)
    found = 0
    for query in centres[rng.integers(60, size=50)] + 0.7 * rng.normal(size=(50, 384)):
        best = exact.similar(query, options).slots
        found += len(np.intersect1d(best, coded.similar(query, options).slots))
    assert found / 500 >= 0.98
    assert coded.memory_usage()["vector_bytes"] * 4 == exact.memory_usage()["vector_bytes"]


def test_a_vector_finds_itself_at_distance_0():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(100, 384))
    for similarity in ("cosine", "euclidean"):
        store = RecordStore(384, similarity, "f32")
        store.put(range(100), vectors)
        found = store.similar(vectors[37], ScoringOptions(NOW), 1)
        assert (found.slots.tolist(), found.similarities.tolist()) == ([37], [1.0])


def test_imp_1_importance():
    assert importance(novelty=1) == pytest.approx(10)
    assert importance() == pytest.approx(0.05)
    assert importance(novelty=0.5) == pytest.approx(0.05 + 9.95 * 0.5)  # no hints: novelty only
    assert importance(interest=1, novelty=0.5) == pytest.approx(0.05 + 9.95 * 0.5)
    assert importance(interest=5, challenge=-1, urgency=0.5) == pytest.approx(0.05 + 9.95 * 0.4)
    weights = {"interest": 2, "challenge": 0, "novelty": 0, "urgency": 0}
    assert importance(interest=0.7, weights=weights) == pytest.approx(0.05 + 9.95 * 0.7)
    with pytest.raises(ValueError, match="urgency"):
        importance(urgency=float("nan"))
    with pytest.raises(ValueError, match="must not all be 0"):
        importance(interest=1, weights=dict.fromkeys(weights, 0))
    with pytest.raises(TypeError, match="weights must be a mapping, not list"):
        importance(weights=["interest"])
    assert [novelty(d) for d in (None, 0.0, 1.0, 2.0, 9.0)] == [1, 0, 0.5, 1, 1]


def test_imp_1_and_imp_3_nearest_by_type():
    store = RecordStore(2, "cosine", "f32")
    assert store.nearest([1, 0]) is None
    store.put([4, 7], [[1, 0], [0, 1]], type=["working", "semantic"])
    assert store.nearest([1, 0.0]) == (4, 0.0)
    slot, distance = store.nearest([1, 0], ["semantic"])
    assert (slot, distance) == (7, pytest.approx(2**0.5))
    assert store.nearest([1, 0], ["episodic"]) is None


def test_imp_2_surprise():
    rng = np.random.default_rng(6)
    values = rng.uniform(0.5, 1.0, 40).tolist()
    surprise = Surprise()
    for i, value in enumerate(values):
        z = surprise.observe(value)
        before = values[:i]
        expected = (value - np.mean(before)) / np.std(before, ddof=1) if i >= 10 else 0
        assert z == pytest.approx(expected)
    assert surprise.observe(2.0) >= 3  # flashbulb
    again = Surprise(surprise.count, surprise.mean, surprise.m2)
    assert again.observe(0.7) == surprise.observe(0.7)
    assert Surprise(20, 1.0, 0.0).observe(5.0) == 0  # no spread
    with pytest.raises(ValueError, match="distance"):
        Surprise().observe(float("inf"))


# Options.


@pytest.mark.parametrize(
    "bad",
    [
        {"boost": 0.9},
        {"boost": 11},
        {"strictness": 0},
        {"strictness": 101},
        {"min_importance": 11},
        {"min_valence": -129},
        {"max_valence": 128},
        {"query_valence": 200},
        {"lateral_distance": float("nan")},
        {"alpha": -0.1},
        {"tag_match": "some"},
        {"score_combine": "product"},
        {"types": ["semantics"]},
        {"now": 10**18},
        {"allow": [-1]},
        {"tags": [[2**32]]},
    ],
)
def test_options_out_of_range_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        ScoringOptions(**{"now": NOW} | bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"now": 1.5},
        {"types": "semantic"},
        {"tags": "deploy"},
        {"staleness": 1},
        {"decay": 0.15},
        {"allow": ["a"]},
    ],
)
def test_options_of_wrong_types_are_named(bad):
    with pytest.raises(TypeError, match=next(iter(bad))):
        ScoringOptions(**{"now": NOW} | bad)


def test_lists_must_ascend():
    store = one()
    for name, value in [("allow", [2, 1]), ("hyperfocus", [1, 1]), ("tags", [[0], [3, 0]])]:
        options = ScoringOptions(NOW, **{name: value})
        with pytest.raises(ValueError, match="must ascend"):
            store.search([1, 0], options)


def test_bad_calls_are_refused():
    store = one()
    with pytest.raises(ValueError, match="k must be in"):
        store.search([1, 0], ScoringOptions(NOW), 0)
    with pytest.raises(TypeError, match="options must be ScoringOptions"):
        store.search([1, 0], {"now": NOW})
    with pytest.raises(ValueError, match="query must have 1 dimension"):
        store.search([[1, 0]], ScoringOptions(NOW))
    with pytest.raises(ValueError, match="query must be finite"):
        store.search([np.nan, 0], ScoringOptions(NOW))
    with pytest.raises(ValueError, match="norm of at most 1e18"):
        store.put([1], [[1e19, 0]])
    with pytest.raises(TypeError, match="query must hold real numbers"):
        store.search(["a", "b"], ScoringOptions(NOW))
    with pytest.raises(IndexError, match="no record in slot 3"):
        store.factors([0, 3], ScoringOptions(NOW))
    with pytest.raises(IndexError, match="no record in slot 9"):
        store.vector(9)
    with pytest.raises(ValueError, match="slots must be at most 4294967294"):
        store.put([2**32 - 1])
    with pytest.raises(ValueError, match="dimensions must be in"):
        RecordStore(65_537)
    with pytest.raises(ValueError, match="alpha and beta change together"):
        store.update_header([0], alpha=1)
    assert repr(store) == "RecordStore(1 records, 2 dimensions, cosine, f32)"
    assert 0 in store
    assert not any(other in store for other in (1, True, "0", -1, 2**40))


def test_f014_a_filter_costs_its_matches(large):
    """A selective list looks at its records, not at all of them, and never empties an answer."""
    store, _ = large["int8"]
    live = store.slots()[::500]
    answer = store.similar(np.ones(100), ScoringOptions(NOW, allow=live, staleness=False), 100)
    assert answer.counts["candidates"] == len(live)
    assert len(answer) == answer.counts["in_time"] > 0


# Files.


def test_save_and_load_check_tags(tmp_path):
    store = one()
    path = tmp_path / "records.seg"
    tags = (np.array([_core.hash64("sql")], np.uint64), [0, 1], [0])
    store.save(path, tags)
    loaded = RecordStore.load(path, tags)
    assert loaded.header(0) == store.header(0)
    assert (loaded.dimensions, loaded.similarity, loaded.storage) == (2, "cosine", "f32")
    assert len(RecordStore.load(path)) == 1
    other = (np.array([_core.hash64("lex")], np.uint64), [0, 1], [0])
    with pytest.raises(CorruptionError, match="tags of slot 0 are others"):
        RecordStore.load(path, other)
    with pytest.raises(ValueError, match="a slot without a record"):
        store.save(path, (other[0], [0, 1], [3]))
    with pytest.raises(ValueError, match="ends must ascend"):
        store.save(path, (other[0], [0, 2], [0]))
    with pytest.raises(StorageError):
        store.save(tmp_path / "none" / "records.seg")
    with pytest.raises(StorageError):
        RecordStore.load(tmp_path / "nothing.seg")


# Threads.


def test_readers_see_whole_changes():
    """Two records that always change together are never seen apart."""
    store = RecordStore(4, "euclidean", "int8")
    store.put([0, 1], np.zeros((2, 4)), timestamp=NOW)
    stop = threading.Event()
    failures = []

    def read():
        options = ScoringOptions(NOW)
        while not stop.is_set():
            answer = store.similar(np.zeros(4), options, 2)
            if len(answer) == 2 and answer.distances[0] != answer.distances[1]:
                failures.append(answer.distances.tolist())

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(600):
        if i % 7 == 0:
            store.remove([0, 1])
        store.put([0, 1], np.full((2, 4), float(i)), timestamp=NOW)
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures


def test_am_11_lists_of_a_fusion_are_those_of_a_search_and_weighed_by_the_factors():
    rng = np.random.default_rng(8)
    store = RecordStore(16)
    n = 300
    store.put(
        np.arange(n),
        rng.standard_normal((n, 16)),
        timestamp=NOW - rng.integers(0, 10**10, n),
        importance=rng.uniform(0.05, 10, n).astype(np.float32),
    )
    options = ScoringOptions(NOW, alpha=0.7, beta=0.2)
    for _ in range(20):
        query = rng.standard_normal(16).astype(np.float32)
        near, best = store.similar(query, options, 30), store.search(query, options, 30)
        cosines = (1 - near.distances**2 / 2).astype(np.float32)
        for by, answer, expected in (
            ("cosine", near, cosines),
            ("similarity", near, near.scores),
            ("score", best, best.scores),
        ):
            slots, scores = store.ranked(query, options, 30, by)
            assert slots.tolist() == answer.slots.tolist()
            assert scores.tolist() == expected.tolist()
        slots = rng.permutation(n)[:40]
        scores = np.round(rng.random(40), 1).astype(np.float32)
        factor, _ = store.factors(slots, options)
        for share, weighed in ((None, scores * factor), (0.75, 0.75 * scores + (factor - 0.75))):
            order = np.lexsort((slots, -weighed))
            found, sums = store.weigh(slots, scores, options, share)
            assert found.tolist() == slots[order].tolist()
            assert sums.tolist() == weighed[order].tolist()
    with pytest.raises(IndexError):
        store.weigh(np.asarray([n]), np.ones(1, np.float32), options)
