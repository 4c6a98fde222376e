"""The bandit: PAD-1 to PAD-11."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spector import CorruptionError, VersionError
from spector.profiles import PROFILES
from spector.store.bandit import Logged, ProfileAdaptor, context_key, evaluate

TAGS = ("sql", "database")


def taught(signals: int = 10, profile: str = "debugging", **options: object) -> ProfileAdaptor:
    bandit = ProfileAdaptor(seed=1, **options)  # type: ignore[arg-type]
    for _ in range(signals):
        bandit.record(TAGS, profile, True)
    return bandit


def test_the_key_of_a_context() -> None:
    """PAD-2: the value of the specification; order, case and duplicates do not matter."""
    assert context_key(["sql", "database"]) == 0xE35F731A0939F855
    assert context_key(["Database", "SQL", "sql "]) == 0xE35F731A0939F855
    assert context_key(["a:b"]) != context_key(["a", "b"])
    assert context_key(["1:a"]) != context_key(["a", "1:"])
    assert context_key([]) == context_key(()) != context_key(["x"])


@given(st.lists(st.text(min_size=1, max_size=4).filter(str.strip), max_size=5), st.randoms())
def test_the_key_is_of_a_set(tags: list[str], rng: random.Random) -> None:  # PAD-2
    tags = [tag for tag in tags if not any("\ud800" <= c <= "\udfff" for c in tag)]
    other = tags + tags[:1]
    rng.shuffle(other)
    assert context_key(tags) == context_key(other)


def test_a_cold_context_gets_the_default_and_does_not_explore() -> None:
    """PAD-3: with 9 signals over all its profiles there is no exploration yet, with 10 there is."""
    bandit = ProfileAdaptor(seed=1)
    for profile in ("debugging", "critical", "exploring"):
        for _ in range(3):
            bandit.record(TAGS, profile, True)
    assert {bandit.suggest(TAGS) for _ in range(500)} == {("balanced", False, 1.0)}
    assert ProfileAdaptor(default="Exploring").suggest(TAGS).profile == "exploring"
    bandit.record(TAGS, "debugging", True)
    assert any(bandit.suggest(TAGS).explored for _ in range(500))


def test_exploration_has_its_share() -> None:
    """PAD-4: over 10,000 draws others than the best have 0.10 * 12 / 13, evenly."""
    bandit = taught()
    drawn = Counter(bandit.suggest(TAGS).profile for _ in range(10_000))
    assert set(drawn) == set(PROFILES)
    assert 1 - drawn["debugging"] / 10_000 == pytest.approx(0.1 * 12 / 13, abs=0.02)
    others = [count for name, count in drawn.items() if name != "debugging"]
    assert max(others) < 3 * min(others)


def test_exploring_a_context_tries_every_profile_before_one_again() -> None:
    """PAD-4: no profile waits longer than a round, and no round has the order of another."""
    bandit = taught()
    explored = [choice.profile for _ in range(4000) if (choice := bandit.suggest(TAGS)).explored]
    rounds = [explored[start : start + 13] for start in range(0, 13 * 20, 13)]
    assert all(sorted(one) == sorted(PROFILES) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 20


def test_propensities_are_the_frequencies() -> None:
    bandit = taught()
    stated = {}
    drawn = Counter()
    for _ in range(20_000):
        choice = bandit.suggest(TAGS)
        drawn[choice.profile] += 1
        stated.setdefault(choice.profile, choice.propensity)
        assert stated[choice.profile] == choice.propensity
    assert sum(stated.values()) == pytest.approx(1)
    for name, count in drawn.items():
        assert count / 20_000 == pytest.approx(stated[name], abs=0.01)


def test_ties_go_by_signals_then_by_the_order_of_the_table() -> None:  # PAD-4
    bandit = ProfileAdaptor(epsilon=0)
    for profile in ("critical", "debugging"):
        for _ in range(5):
            bandit.record(TAGS, profile, True)
    assert bandit.suggest(TAGS).profile == "debugging"
    equal = ProfileAdaptor(epsilon=0, alpha=1.0)  # every EMA is the last signal
    for profile, signals in (("debugging", 4), ("critical", 6)):
        for _ in range(signals):
            equal.record(TAGS, profile, True)
    assert equal.suggest(TAGS).profile == "critical"


def test_the_average_moves_as_specified() -> None:
    """PAD-5: .575 after one positive, .902 after ten, .098 after ten negative ones."""
    for signals, positive, expected in ((1, True, 0.575), (10, True, 0.902), (10, False, 0.098)):
        bandit = ProfileAdaptor()
        for _ in range(signals):
            bandit.record(TAGS, "debugging", positive)
        (arms,) = bandit.stats().values()
        assert arms["debugging"]["ema"] == pytest.approx(expected, abs=5e-4)
        assert arms["debugging"]["signals"] == signals
        assert arms["debugging"]["positives"] == signals * positive


def test_the_average_follows_a_reward_that_flips() -> None:
    """Within 30 signals the profile that became good is the one that is taken."""
    bandit = ProfileAdaptor(epsilon=0)
    for _ in range(100):
        bandit.record(TAGS, "debugging", True)
        bandit.record(TAGS, "critical", False)
    assert bandit.suggest(TAGS).profile == "debugging"
    for _ in range(15):
        bandit.record(TAGS, "debugging", False)
        bandit.record(TAGS, "critical", True)
    assert bandit.suggest(TAGS).profile == "critical"


def test_back_off_uses_single_tags_and_then_everything() -> None:
    bandit = taught(back_off=True, epsilon=0)
    assert bandit.suggest(["sql", "unseen"]).profile == "debugging"  # by its tag
    assert bandit.suggest(["unseen"]).profile == "debugging"  # by all contexts
    plain = taught(epsilon=0)
    assert plain.suggest(["sql", "unseen"]).profile == "balanced"
    for _ in range(20):  # what is known of the context itself wins
        bandit.record(["sql", "unseen"], "critical", True)
    assert bandit.suggest(["sql", "unseen"]).profile == "critical"


def test_statistics_survive_a_file(tmp_path: Path) -> None:
    """PAD-10: equal statistics and, given the seed, equal decisions; unknown names are kept."""
    bandit = taught()
    bandit.record_key(context_key(TAGS), (), "of_tomorrow", True, 5)
    bandit.record_key(context_key(TAGS), (), "of_tomorrow", True, 5)
    bandit.record((), "critical", False)
    file = tmp_path / "coactivation.tracker"
    bandit.save(file)
    one, other = (ProfileAdaptor.load(file, seed=7) for _ in range(2))
    assert one.stats() == bandit.stats()
    assert [one.suggest(TAGS) for _ in range(200)] == [other.suggest(TAGS) for _ in range(200)]
    assert all(one.suggest(TAGS).profile in PROFILES for _ in range(200))
    again = tmp_path / "again"
    one.save(again)
    assert again.read_bytes()[64:] == file.read_bytes()[64:]


def test_a_file_has_the_rights_that_others_have(tmp_path: Path) -> None:
    taught().save(tmp_path / "tracker")
    (tmp_path / "plain").write_text("x")
    assert (tmp_path / "tracker").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:  # PER-4
    file = tmp_path / "coactivation.tracker"
    bandit = taught()
    bandit.save(file)
    whole = file.read_bytes()
    before = bandit.stats()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises((CorruptionError, VersionError)):
            bandit.restore(file)
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        with pytest.raises(CorruptionError):
            bandit.restore(file)
    assert bandit.stats() == before


def test_signals_of_many_threads_are_all_there() -> None:  # PAD-11
    bandit = ProfileAdaptor()

    def teach(name: str) -> None:
        for i in range(2000):
            bandit.record((f"t{i % 50}", "all"), name, True)
            bandit.suggest((f"t{i % 50}", "all"))

    threads = [threading.Thread(target=teach, args=(name,)) for name in list(PROFILES)[:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [arm["signals"] for arms in bandit.stats().values() for arm in arms.values()]
    assert sum(counts) == 8000
    assert set(counts) == {40}


@pytest.mark.parametrize("policy", ["epsilon_greedy", "ucb1", "thompson"])
def test_each_policy_finds_the_better_of_two(policy: str) -> None:
    rng = random.Random(3)
    reward = {"debugging": 0.8, "critical": 0.3}
    bandit = ProfileAdaptor(policy=policy, profiles=tuple(reward), default="critical", seed=4)
    taken = Counter()
    for _ in range(1500):
        choice = bandit.suggest(TAGS)
        assert 0 < choice.propensity <= 1
        taken[choice.profile] += 1
        bandit.record(TAGS, choice.profile, rng.random() < reward[choice.profile])
    assert taken["debugging"] > 1300


def test_thompson_states_its_propensity() -> None:
    bandit = ProfileAdaptor(policy="thompson", profiles=("a", "b", "c"), default="a", seed=2)
    for name, good, bad in (("a", 6, 4), ("b", 5, 5), ("c", 1, 4)):
        for positive in [True] * good + [False] * bad:
            bandit.record(TAGS, name, positive)
    drawn: Counter[str] = Counter()
    stated: dict[str, float] = {}
    for _ in range(20_000):
        choice = bandit.suggest(TAGS)
        drawn[choice.profile] += 1
        stated[choice.profile] = choice.propensity
    for name, share in stated.items():
        assert drawn[name] / 20_000 == pytest.approx(share, abs=0.015)


def test_another_policy_is_estimated_from_the_log() -> None:
    """The intervals hold the true reward as often as they say, though the log liked another."""
    truth = {"debugging": 0.7, "critical": 0.4}
    held = Counter[str]()
    for seed in range(40):
        rng = random.Random(seed)
        log = []
        for _ in range(600):
            profile, share = ("critical", 0.8) if rng.random() < 0.8 else ("debugging", 0.2)
            log.append(Logged(rng.randrange(4), profile, share, rng.random() < truth[profile]))
        naive = np.mean([one.positive for one in log])
        assert abs(naive - truth["debugging"]) > 0.15  # which the log's own mean does not tell
        for name, expected in truth.items():
            found = evaluate(log, lambda _, name=name: name, name)
            held["ips"] += found.ips_low <= expected <= found.ips_high
            held["robust"] += found.doubly_robust_low <= expected <= found.doubly_robust_high
    assert held["ips"] >= 70
    assert held["robust"] >= 70
    with pytest.raises(ValueError, match="at least one"):
        evaluate([], lambda _: "critical", "critical")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "greedy"}, "policy must be one of"),
        ({"epsilon": 1.5}, r"epsilon must be in \[0, 1\]"),
        ({"alpha": 0.0}, r"alpha must be in \(0, 1\]"),
        ({"default": "debuging"}, "did you mean 'debugging'"),
        ({"profiles": "debugging"}, "profiles must be a sequence"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProfileAdaptor(**options)  # type: ignore[arg-type]


def test_bad_signals_are_refused() -> None:
    bandit = ProfileAdaptor()
    with pytest.raises(ValueError, match="profile must be one of"):
        bandit.record(TAGS, "nobody", True)
    with pytest.raises(TypeError, match="positive"):
        bandit.record(TAGS, "debugging", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tags must be an iterable"):
        bandit.suggest("sql")  # type: ignore[arg-type]
    assert len(bandit) == 0


def test_an_interval_is_of_rewards() -> None:
    """Nothing outside [0, 1]; of a profile that was hardly tried nothing is known."""
    rng = random.Random(3)
    few = [Logged(1, "debugging", 0.9, True)] * 9
    (one,) = (evaluate(few, lambda _: "debugging", "debugging"),)
    assert (one.ips_low, one.ips_high) == (one.doubly_robust_low, one.doubly_robust_high) == (0, 1)
    log = [
        Logged(1, name, 0.02 if name == "critical" else 0.98, rng.random() < 0.9)
        for name in rng.choices(["debugging", "critical"], [0.8, 0.2], k=200)
    ]
    for name in ("debugging", "critical"):
        estimate = evaluate(log, lambda _, name=name: name, name)
        assert all(0 <= value <= 1 for value in estimate[1:7])
        assert estimate.doubly_robust_low < estimate.doubly_robust_high
