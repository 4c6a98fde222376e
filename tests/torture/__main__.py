"""Runs all checks and prints one table.

make torture                                   # all checks; the last line says how long
python -m tests.torture --release              # the sizes for a release, hours
python -m tests.torture --only R1,R5 --seed 7  # what failed, again
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from torture.checks import CHECKS
from torture.harness import Outcome, Skipped


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
    start = time.monotonic()
    print(f"{'':6}{'rounds':>8}{'seconds':>9}  result")
    for check in CHECKS:
        if chosen and check.label not in chosen:
            continue
        size = check.release if options.release else check.rounds
        size = max(1, round(size * options.scale))
        begun = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix="spector-torture-", dir=place))
        try:
            outcome = check.run(folder, size, options.seed)
        except Skipped as reason:
            skipped += 1
            print(f"{check.label:6}{'':8}{'':9}  SKIPPED: {reason}", flush=True)
            continue
        except Exception as error:
            outcome = Outcome(0, [f"{type(error).__name__}: {error}"])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seconds = time.monotonic() - begun
        verdict = "ok" if not outcome.problems else f"{len(outcome.problems)} PROBLEMS"
        print(
            f"{check.label:6}{outcome.rounds:>8,}{seconds:>9.1f}  {verdict}: {check.promise}"
            + (f"\n{'':25}{outcome.note}" if outcome.note else "")
            + (f"\n{'':25}control: {outcome.control}" if outcome.control else ""),
            flush=True,
        )
        for problem in outcome.problems[:5]:
            print(f"{'':25}{problem}", flush=True)
        failed += bool(outcome.problems)
    minutes = (time.monotonic() - start) / 60
    print(f"{failed} failed, {skipped} skipped, {minutes:.1f} minutes, seed {options.seed}")
    return int(failed > 0 or skipped > options.max_skips)


if __name__ == "__main__":
    raise SystemExit(main())
