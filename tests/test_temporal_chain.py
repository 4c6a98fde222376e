"""TemporalChain: links, order, sessions, pruning, files, arguments (TMP-1 to TMP-5, BUD-6)."""

import copy
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference import temporal_chain
from spector import CorruptionError, StorageError
from spector.graph import TemporalChain

slot = st.integers(0, 13)
session = st.integers(0, 2)
time = st.integers(0, 9)
one_link = st.tuples(slot, slot, session, time)


def assert_same(chain, model):
    records = chain.records()
    expected = [model.neighbours(slot) for slot in range(model.n)]
    assert list(zip(records.prev.tolist(), records.next.tolist(), strict=True)) == expected
    assert records.session.tolist() == [model.sessions.get(slot, 0) for slot in range(model.n)]
    assert records.time.tolist() == [model.times.get(slot, 0) for slot in range(model.n)]
    assert len(chain) == model.n
    assert chain.link_count == sum(len(slots) - 1 for slots in model.chains)


class Histories(RuleBasedStateMachine):
    """Any history of changes gives the chains of the plain model."""

    @initialize(n=st.integers(0, 12))
    def start(self, n):
        self.chain = TemporalChain(n)
        self.model = temporal_chain.Chain()
        self.model.resize(n)

    @rule(n=st.integers(0, 14))
    def resize(self, n):
        self.chain.resize(n)
        self.model.resize(n)

    @rule(link=one_link)
    def link(self, link):
        refused = self.model.refuses(*link[:3])
        if refused is not None:
            with pytest.raises(refused):
                self.chain.link(*link)
        else:
            self.chain.link(*link)
            self.model.link(*link)

    @rule(links=st.lists(one_link, max_size=6))
    def link_many(self, links):
        after = copy.deepcopy(self.model)
        columns = [list(column) for column in zip(*links, strict=True)] or [[]] * 4
        for link in links:
            refused = after.refuses(*link[:3])
            if refused is not None:
                with pytest.raises(refused):
                    self.chain.link(*columns)
                return
            after.link(*link)
        self.chain.link(*columns)
        self.model = after

    @rule(slots=st.lists(slot, max_size=3))
    def remove(self, slots):
        if all(slot < self.model.n for slot in slots):
            self.chain.remove(slots)
            self.model.remove(slots)
        else:
            with pytest.raises(IndexError):
                self.chain.remove(slots)

    @rule(before=time, low=st.lists(slot, max_size=8), mask=st.booleans())
    def prune(self, before, low, mask):
        low = sorted({slot for slot in low if slot < self.model.n})
        given = np.isin(np.arange(self.model.n), low) if mask else low
        assert self.chain.prune(before, given) == self.model.prune(before, low)

    @rule()
    def save_and_load(self):
        self.chain.save(self.folder / "temporal.chain")
        self.chain = TemporalChain.load(self.folder / "temporal.chain")

    @rule(starts=st.lists(slot, max_size=4), max_hops=st.integers(0, 14), backward=st.booleans())
    def follow(self, starts, max_hops, backward):
        starts = [start for start in starts if start < self.model.n]
        expected = [self.model.follow(start, max_hops, backward) for start in starts]
        indptr, slots = self.chain.followers(starts, max_hops, backward)
        assert indptr.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
        assert slots.tolist() == [slot for slots in expected for slot in slots]
        one = self.chain.follow_backward if backward else self.chain.follow_forward
        for start, slots in zip(starts, expected, strict=True):
            assert one(start, max_hops).tolist() == slots

    @invariant()
    def same(self):
        assert_same(self.chain, self.model)


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    Histories.folder = tmp_path_factory.mktemp("chain")


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)


def linked(n, session=1):
    """The chain 0, 1, ..., n - 1."""
    chain = TemporalChain(n)
    chain.link(np.arange(1, n), np.arange(n - 1), session)
    return chain


def forward(chain, start):
    return chain.follow_forward(start, 100).tolist()


def backward(chain, start):
    return chain.follow_backward(start, 100).tolist()


def test_tmp1_a_record_is_16_bytes_and_bud6_holds():
    n = 100_000
    chain = linked(n)
    assert 16 * n <= chain.memory_usage()["records"] <= 1.15 * 16 * n


def test_tmp2_link_sets_both_directions():
    chain = TemporalChain(3)
    chain.link(2, 1, session=5, time=77)
    assert (chain.prev(2), chain.next(1), chain.prev(1), chain.next(2)) == (1, 2, -1, -1)
    assert (chain.session(1), chain.session(2), chain.session(0)) == (5, 5, 0)
    assert (chain.time(1), chain.time(2)) == (0, 77)


def test_tmp2_linking_again_leaves_no_old_pointer_and_no_circle():
    """Linking 10 after 5 where 9-10 were linked: nothing may still lead from 9 to 10."""
    chain = TemporalChain(12)
    chain.link([9, 10, 11, 5], [8, 9, 10, 4], session=1)
    chain.link(10, 5, session=1)
    assert forward(chain, 8) == [9, 11]
    assert forward(chain, 4) == [5, 10]
    assert backward(chain, 10) == [5, 4]
    for current, prev in [(8, 11), (9, 11), (4, 10), (4, 5), (11, 8)]:
        chain.link(current, prev, session=1)
        for start in range(12):
            there = forward(chain, start)
            assert len(set(there)) == len(there) < 12
            assert start not in there


def test_tmp2_current_is_spliced_in_between():
    chain = linked(4)
    chain.resize(6)
    chain.link(5, 1, session=1)
    assert forward(chain, 0) == [1, 5, 2, 3]
    assert backward(chain, 3) == [2, 5, 1, 0]


def test_tmp2_linking_the_same_again_changes_nothing():
    chain = linked(4)
    chain.link(2, 1, session=1)
    assert forward(chain, 0) == [1, 2, 3]


def test_tmp2_refused_calls_change_nothing():
    chain = linked(4)
    chain.resize(6)
    for current, prev, session, error in [
        (2, 2, 1, ValueError),
        (6, 1, 1, IndexError),
        (1, 6, 1, IndexError),
        (5, 1, 2, ValueError),
        ([5, 4], [3, 4], 1, ValueError),
        ([5, 4], [3, 7], 1, IndexError),
        ([5, 4], [3], 1, ValueError),
        (-1, 1, 1, ValueError),
        (1, 0, -1, ValueError),
        (1, 0, 2**32, ValueError),
        (1.5, 0, 1, TypeError),
        (1, 0, "1", TypeError),
    ]:
        with pytest.raises(error):
            chain.link(current, prev, session)
        assert forward(chain, 0) == [1, 2, 3]
        assert chain.link_count == 3


def test_tmp2_a_session_that_two_chains_could_share_by_their_middle_is_refused():
    """A chain of session 0 is one of a session: its ends take no others."""
    chain = linked(3, session=0)
    chain.resize(5)
    for prev in range(3):
        with pytest.raises(ValueError, match="session must be that of slot"):
            chain.link(4, prev, session=7)
    chain.link(4, 3, session=7)
    assert forward(chain, 3) == [4]


def test_tmp3_f064_interleaved_sessions_and_a_clock_set_back_do_not_mix():
    """Two sessions, 100 memories each in turn, the clock an hour back half way."""
    chain = TemporalChain(200)
    last = {}
    for slot in range(200):
        session = 1 + slot % 2
        if session in last:
            now = 10_000 - 3600 * (slot >= 100)
            chain.link(slot, last[session], session, now)
        last[session] = slot
    assert forward(chain, 0) == list(range(2, 200, 2))
    assert forward(chain, 1) == list(range(3, 200, 2))


def test_tmp3_f065_order_is_that_of_arrival_also_after_reopening(tmp_path):
    """Days 3, 1, 2, and day 3's session goes on afterwards."""
    chain = TemporalChain(7)
    chain.link(1, 0, session=3, time=300)
    chain.link(3, 2, session=1, time=100)
    chain.link(5, 4, session=2, time=200)
    chain.link(6, 1, session=3, time=400)
    chain.save(tmp_path / "temporal.chain")
    for opened in (chain, TemporalChain.load(tmp_path / "temporal.chain")):
        assert [forward(opened, start) for start in (0, 2, 4)] == [[1, 6], [3], [5]]


def test_tmp4_hops_order_and_ends():
    chain = linked(10)
    assert chain.follow_forward(3, 3).tolist() == [4, 5, 6]
    assert chain.follow_backward(3, 2).tolist() == [2, 1]
    assert chain.follow_forward(3, 0).tolist() == []
    assert chain.follow_forward(9, 5).tolist() == []
    assert chain.follow_forward(3, 2**63 - 1).tolist() == [4, 5, 6, 7, 8, 9]
    with pytest.raises(ValueError, match="max_hops must be in"):
        chain.follow_forward(3, -1)
    with pytest.raises(IndexError, match="start must be below the number of slots, 10, not 10"):
        chain.follow_forward(10, 1)


def test_tmp5_remove_joins_the_neighbours():
    chain = linked(5)
    chain.remove(2)
    assert forward(chain, 0) == [1, 3, 4]
    assert (chain.prev(2), chain.next(2), chain.session(2)) == (-1, -1, 0)
    chain.remove([0, 4])
    assert forward(chain, 1) == [3]
    chain.remove([1, 1])
    assert chain.link_count == 0


def test_tmp5_prune_takes_what_is_old_and_of_low_importance():
    chain = TemporalChain(6)
    chain.link([1, 2, 3, 4, 5], [0, 1, 2, 3, 4], 1, [10, 20, 30, 0, 50])
    assert chain.prune(25, [2, 3, 4]) == 1  # 3 is younger, the time of 4 is not known
    assert forward(chain, 0) == [1, 3, 4, 5]
    assert (chain.session(2), chain.time(2)) == (1, 20)
    mask = np.zeros(6, bool)
    mask[[1, 5]] = True
    assert chain.prune(100, mask) == 2
    assert forward(chain, 0) == [3, 4]
    chain.link(2, 0, session=1)  # it is still of its session
    assert forward(chain, 0) == [2, 3, 4]
    with pytest.raises(ValueError, match="low must be one bool for each of the 6 slots"):
        chain.prune(100, mask[:5])
    with pytest.raises(IndexError):
        chain.prune(100, [6])


def test_save_of_a_chain_in_memory_writes_a_file(tmp_path):
    chain = linked(1000)
    chain.save(tmp_path / "temporal.chain")
    assert (tmp_path / "temporal.chain").stat().st_size > 16 * 1000
    assert forward(TemporalChain.load(tmp_path / "temporal.chain"), 990) == list(range(991, 1000))
    TemporalChain().save(tmp_path / "empty.chain")
    assert len(TemporalChain.load(tmp_path / "empty.chain")) == 0


def test_golden_file(tmp_path):
    """The bytes are those of FORMATS.md, and stay so; the header has the times of saving."""
    chain = TemporalChain(7)
    chain.link([1, 2, 5], [0, 1, 4], [3, 3, 2**32 - 1], [10, 2**32 - 1, 0])
    path = Path(__file__).parent / "data" / "tpch-2.chain"
    data = path.read_bytes()
    assert forward(TemporalChain.load(path), 0) == [1, 2]
    chain.save(tmp_path / "temporal.chain")
    assert (tmp_path / "temporal.chain").read_bytes()[64:] == data[64:]
    assert data[:16] == b"TPCH" + struct.pack("<IHHI", 2, 0, 3, 16)
    expected = [(-1, 1, 3, 0), (0, 2, 3, 10), (1, -1, 3, 2**32 - 1), (-1, -1, 0, 0)]
    expected += [(-1, 5, 2**32 - 1, 0), (4, -1, 2**32 - 1, 0), (-1, -1, 0, 0)]
    assert data[-16 * 7 :] == b"".join(struct.pack("<iiII", *record) for record in expected)


def test_f059_a_cut_or_missing_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "temporal.chain"
    linked(10).save(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptionError, match=r"temporal\.chain is damaged"):
        TemporalChain.load(path)
    with pytest.raises(StorageError, match="cannot read"):
        TemporalChain.load(tmp_path / "nothing")
    with pytest.raises(StorageError, match="cannot write"):
        linked(3).save(tmp_path / "no" / "folder")


def test_sizes_are_checked_and_only_grow():
    chain = TemporalChain(5)
    chain.resize(3)
    assert len(chain) == 5
    with pytest.raises(ValueError, match=r"n must be in \[0, 2147483648\]"):
        chain.resize(2**31 + 1)
    with pytest.raises(ValueError, match="slots must be in"):
        TemporalChain(-1)
    assert repr(linked(4)) == "TemporalChain(slots=4, links=3)"


def test_gen2_equal_calls_give_equal_files(tmp_path):
    for name in ("a", "b"):
        chain = linked(100)
        chain.remove([5, 50])
        chain.save(tmp_path / name)
    head = 64  # has the time of saving
    assert (tmp_path / "a").read_bytes()[head:] == (tmp_path / "b").read_bytes()[head:]


def test_readers_beside_a_writer_see_whole_links():
    """One thread moves a slot along a chain; others never see it missing or twice."""
    chain = linked(50)
    stop = threading.Event()
    faults = []

    def read():
        while not stop.is_set():
            records = chain.records()
            for prev, direction in ((records.prev, records.next), (records.next, records.prev)):
                here = np.flatnonzero(prev >= 0)
                if not np.array_equal(direction[prev[here]], here):
                    faults.append("a link in one direction")
            if len(forward(chain, 0)) != 49:
                faults.append("a slot missing")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(2000):
        current = 1 + i % 49
        others = (i * 7) % 49
        if others != current:
            chain.link(current, others, session=1)
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []
