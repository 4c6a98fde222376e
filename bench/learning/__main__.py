"""What learning is worth, and what it costs.

    python -m bench.learning [--data DIR] [--docs DIR]
    python -m bench.learning --year [--docs DIR]
    python -m bench.learning --reflect 1000000

Regret of the bandit's policies beside MABWiser's, if that is installed; rewards in a world of three
topics that each have a profile which suits them; with `--data` curves over LoCoMo conversations.
Alone: with `--year` a year of use, with `--reflect` recalls while another thread reflects.
`--docs` writes the curves as SVG files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from bench.learning.chart import draw
from bench.learning.costs import measure
from bench.learning.during import measure as measure_during
from bench.learning.policies import compare
from bench.learning.worlds import LEARNERS, TOPICS, conversations, topics
from bench.learning.year import live
from bench.quality.sets import load
from spector.store.bandit import POLICIES


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder of the sets")
    parser.add_argument("--year", action="store_true", help="the year of use (minutes)")
    parser.add_argument("--reflect", type=int, help="recalls while so many memories are reflected")
    parser.add_argument("--docs", type=Path, help="where curves go")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--signals", type=int, default=300, help="of each topic")
    chosen = parser.parse_args()
    if chosen.reflect:
        with tempfile.TemporaryDirectory() as folder:
            for during in measure_during(Path(folder), chosen.reflect):
                print(json.dumps({"part": "reflect", **during}))
        return
    if chosen.year:
        _year(chosen.docs)
        return
    for row in compare(chosen.seeds):
        ratio = row["regret"] / row["mabwiser"] if row["mabwiser"] else None
        print(json.dumps({"part": "policies", **row, "ratio": ratio}))
    for cost in measure():
        print(json.dumps({"part": "costs", **cost}))
    _topics(chosen.signals, chosen.seeds, chosen.docs)
    if chosen.data:
        _conversations(chosen.data, chosen.rounds, chosen.docs)


def _year(docs: Path | None) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in live(Path(folder), 10_000, 100_000):
            print(json.dumps({"part": "year", **row}), flush=True)
            rows.append(row)
    if docs:
        for name in ("journal_mb", "recall_ms"):
            curve = [(float(one["day"]), float(one[name])) for one in rows]
            draw(docs / f"year-{name.replace('_', '-')}.svg", name, "day", {name: curve})


def _topics(signals: int, seeds: int, docs: Path | None) -> None:
    curves = {}
    window = 20
    runs_of = {"balanced": "balanced", **{f"auto, {name}": "auto" for name in POLICIES}}
    for profile, asked in {**runs_of, "oracle": "oracle"}.items():
        policy = profile.removeprefix("auto, ") if asked == "auto" else POLICIES[0]
        runs = [topics(asked, policy, signals, seed) for seed in range(seeds)]
        means = {
            topic: [statistics.mean(one) for one in zip(*(run[topic] for run in runs), strict=True)]
            for topic in TOPICS
        }
        unsuited = [topic for topic, (best, _) in TOPICS.items() if best != "balanced"]
        drawn = [statistics.mean(one) for one in zip(*(means[t] for t in unsuited), strict=True)]
        curves[profile] = [
            (float(end), statistics.mean(drawn[end - window : end]))
            for end in range(window, signals + 1, window)
        ]
        for topic in TOPICS:
            late = statistics.mean(means[topic][200:]) if signals > 200 else None
            print(
                json.dumps(
                    {
                        "part": "topics",
                        "topic": topic,
                        "profile": profile,
                        "reward": statistics.mean(means[topic]),
                        "after_200_signals": late,
                    }
                )
            )
    if docs:
        name = "reward, the two topics that the default does not suit"
        draw(docs / "learning-topics.svg", name, "recalls of a topic", curves)


def _conversations(data: Path, rounds: int, docs: Path | None) -> None:
    collections = load("locomo", data)
    curves = {}
    for name, learner in LEARNERS.items():
        curve = conversations(collections, learner, rounds)
        for number, figures in enumerate(curve):
            print(json.dumps({"part": "locomo", "learner": name, "round": number, **figures}))
        for kind in ("asked", "never asked"):
            points = [(float(n), figures[kind]["mrr"]) for n, figures in enumerate(curve)]
            curves.setdefault(kind, {})[name] = points
    if docs:
        for kind, of_kind in curves.items():
            file = docs / f"learning-{kind.replace(' ', '-')}.svg"
            draw(file, f"MRR of questions that are {kind}, LoCoMo", "round", of_kind)


if __name__ == "__main__":
    main()
