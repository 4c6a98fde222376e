"""Runs all checks and prints one table.

make torture                                   # all checks; the last line says how long
python -m tests.torture --release              # the sizes for a release, hours
python -m tests.torture --only R1,R5 --seed 7  # what failed, again
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from torture.checks import CHECKS, Check
from torture.harness import Child, Outcome, Skipped, fork

LANES = 2  # checks at the same time that work in one process


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", action="store_true", help="the sizes for a release")
    parser.add_argument("--only", default="", help="labels, divided by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--max-skips", type=int, default=0, help="more skips are a failure")
    parser.add_argument("--dir", type=Path, help="where to work; default: memory, if it can")
    options = parser.parse_args()

    memory = Path("/dev/shm")
    place = options.dir or (memory if os.access(memory, os.W_OK) else None)
    chosen = [label for label in options.only.split(",") if label]
    failed = skipped = 0
    work = 0.0
    start = time.monotonic()
    print(f"{'':6}{'rounds':>8}{'seconds':>9}{'of work':>9}  result")
    waiting = [check for check in CHECKS if not chosen or check.label in chosen]
    running: list[tuple[Check, Child]] = []
    while waiting or running:
        while waiting and sum(check.lanes for check, _ in running) + waiting[0].lanes <= LANES:
            check = waiting.pop(0)
            size = check.release if options.release else check.rounds
            size = max(1, round(size * options.scale))
            running.append((check, fork(functools.partial(_run, check, size, options.seed, place))))
        select.select([child.descriptor for _, child in running], [], [])
        ended = [(check, child) for check, child in running if not child.read()]
        for check, child in ended:
            running.remove((check, child))
            child.finish()
            try:
                told = json.loads(child.output)
            except ValueError:
                told = {"problems": [f"ended with {child.status}: {child.output[-300:]!r}"]}
            if "skipped" in told:
                skipped += 1
                print(f"{check.label:6}{'':26}  SKIPPED: {told['skipped']}", flush=True)
                continue
            seconds, spent = told.pop("seconds", 0.0), told.pop("work", 0.0)
            work += spent
            outcome = Outcome(**told)
            verdict = "ok" if not outcome.problems else f"{len(outcome.problems)} PROBLEMS"
            print(
                f"{check.label:6}{outcome.rounds:>8,}{seconds:>9.1f}{spent:>9.1f}"
                f"  {verdict}: {check.promise}"
                + (f"\n{'':34}{outcome.note}" if outcome.note else "")
                + (f"\n{'':34}control: {outcome.control}" if outcome.control else ""),
                flush=True,
            )
            for problem in outcome.problems[:5]:
                print(f"{'':34}{problem}", flush=True)
            failed += bool(outcome.problems)
    minutes = (time.monotonic() - start) / 60
    print(
        f"{failed} failed, {skipped} skipped, {minutes:.1f} minutes, {work / 60:.1f} minutes of"
        f" work of the processors, seed {options.seed}"
    )
    return int(failed > 0 or skipped > options.max_skips)


def _run(
    check: Check, size: int, seed: int, place: Path | None, write: Callable[[str], object]
) -> None:
    """In a child: do one check and say what it found, as JSON."""
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="spector-torture-", dir=place))
    try:
        outcome = check.run(folder, size, seed)
    except Skipped as reason:
        write(json.dumps({"skipped": str(reason)}))
        return
    except Exception as error:
        outcome = Outcome(0, [f"{type(error).__name__}: {error}"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    work = sum(each.ru_utime + each.ru_stime for each in used)
    seconds = time.monotonic() - begun
    write(json.dumps({**asdict(outcome), "seconds": seconds, "work": work}))


if __name__ == "__main__":
    raise SystemExit(main())
