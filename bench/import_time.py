"""Cost of ``import spector`` beside numpy's: ``python -m bench.import_time``.

Each import runs in a process of its own, the two in turn; prints medians and their ratio.
"""

import statistics
import subprocess
import sys

ROUNDS = 15


def import_us(module: str) -> int:
    """Cumulative import time of a module in microseconds, as ``-X importtime`` gives it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {module}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stderr.splitlines()[-1].split("|")[1])


def main() -> None:
    times: dict[str, list[int]] = {"numpy": [], "spector": []}
    for _ in range(ROUNDS):
        for module, seen in times.items():
            seen.append(import_us(module))
    medians = {module: statistics.median(seen) for module, seen in times.items()}
    for module, median in medians.items():
        print(f"import {module:8} {median / 1000:8.1f} ms (median of {ROUNDS})")
    print(f"ratio           {medians['spector'] / medians['numpy']:8.2f}")


if __name__ == "__main__":
    main()
