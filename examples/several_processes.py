"""Several processes on one folder: each sees what the others wrote, and nothing is lost.

python examples/several_processes.py
"""

import subprocess
import sys
import tempfile

import spector

WRITERS = 3
TEXTS = 20


def write(folder: str, name: str) -> None:
    """What one process does."""
    with spector.SpectorMemory.open(folder) as memory:
        for number in range(TEXTS):
            memory.remember(f"{name} finished job {number}", id=f"{name}-{number}", session=name)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, spector.SpectorMemory.open(folder) as memory:
        writers = [
            subprocess.Popen([sys.executable, __file__, folder, f"worker{number}"])
            for number in range(WRITERS)
        ]
        for writer in writers:
            if writer.wait() != 0:
                raise SystemExit("a writer failed")
        # This object was open all the time: it catches up by itself.
        print(f"{len(memory)} of {WRITERS * TEXTS} memories")
        for hit in memory.recall("what did worker1 finish, job 7?", k=1):
            print(hit.id)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(*sys.argv[1:3])
    else:
        main()
