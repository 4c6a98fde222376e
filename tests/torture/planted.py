"""R20: faults that are planted on purpose, each of which a test must find.

    python -m tests.torture.planted [NAME ...]

Nothing is built: a fault is a patch of the Python code, made in every process that a run of the
named tests starts. Without a fault these tests pass, which is checked, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
#: Of so many planted faults so many may be missed.
MISSES = 1
LANES = 2


@dataclass(frozen=True)
class Fault:
    """What is broken, and which tests should notice: arguments of pytest."""

    what: str
    plant: Callable[[], None]
    tests: str


FAULTS: dict[str, Fault] = {}


def fault(what: str, tests: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a fault under the name of the function that plants it."""

    def register(plant: Callable[[], None]) -> Callable[[], None]:
        FAULTS[plant.__name__] = Fault(what, plant, tests)
        return plant

    return register


def _module(name: str) -> Any:
    import importlib

    importlib.import_module("spector.memory")
    return sys.modules[f"spector.{name}"]


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Let `around(original, *arguments)` take the place of a function."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        return around(original, *arguments, **keywords)

    setattr(owner, name, wrapped)


def _nothing(*_: Any, **__: Any) -> None:
    return None


# Durability


@fault("commits are not synchronised", "test_store.py -k synced")
def no_sync() -> None:
    def connect(original: Any, *arguments: Any) -> Any:
        connection = original(*arguments)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    _wrap(_module("store.journal"), "_connect", connect)


@fault("a write is acknowledged before it is committed", "test_processes.py -k killed")
def early_acknowledgement() -> None:
    import threading

    from spector.store.values import Draft  # noqa: F401

    def store(original: Any, self: Any, drafts: Any, *rest: Any, **more: Any) -> Any:
        ids = [draft.id for draft in drafts]
        if None in ids:
            return original(self, drafts, *rest, **more)
        work = threading.Timer(0.02, original, (self, list(drafts), *rest), more)
        work.daemon = True
        work.start()
        return ids

    _wrap(_module("memory").SpectorMemory, "_store", store)


@fault("after a failed sync writing goes on", "test_store.py -k sync")
def failed_sync_forgotten() -> None:
    _module("store.journal").Journal._note_failed_sync = _nothing


@fault("a batch is stored item by item", "test_processes.py -k whole_or_absent")
def torn_batches() -> None:
    def store(original: Any, self: Any, drafts: Any, *rest: Any, **more: Any) -> Any:
        return [original(self, [draft], *rest, **more)[0] for draft in drafts]

    _wrap(_module("memory").SpectorMemory, "_store", store)


# What is checked


@fault("checksums of rows are not compared", "test_store.py -k 'behind or damage'")
def rows_unchecked() -> None:
    for name in ("store.reader", "store.check"):
        _module(name).row_problem = _nothing


@fault("checksums of events are not compared", "test_store.py -k 'behind or damage'")
def events_unchecked() -> None:
    def events(original: Any, self: Any, after: int, limit: int, until: int = 0) -> Any:
        module = _module("store.reader")
        query = "SELECT seq, type, at, slot, payload, crc FROM events WHERE seq > ? ORDER BY seq"
        return [module.Event(*row) for row in self._connection.execute(query, (after,))][:limit]

    _wrap(_module("store.reader").Reader, "events", events)


@fault("totals are not compared", "test_store.py test_snapshots.py")
def totals_unchecked() -> None:
    _module("store.check").Audit.problems = lambda self, reader: iter(())
    _module("store.reader").Reader.quick_problems = lambda self: iter(())


@fault("nobody looks at the tables after opening from a snapshot", "test_snapshots.py -k looks_at")
def tables_unchecked() -> None:
    _module("store.journal").Journal.check_whole = _nothing


@fault("files of a snapshot are not compared with their checksums", "test_snapshots.py")
def snapshots_unchecked() -> None:
    def read(original: Any, path: Path) -> Any:
        with contextlib.suppress(Exception):
            return original(path)
        import json

        module = _module("store.snapshots")
        content = json.loads((path / "manifest.json").read_bytes().split(b"\n")[0])
        del content["format"], content["files"]
        return module.Manifest(**{**content, "origin": module.Origin(**content["origin"])})

    _wrap(_module("store.snapshots"), "read", read)


@fault("a snapshot of another history of the journal is used", "test_snapshots.py -k went_back")
def histories_unchecked() -> None:
    def replica_of(original: Any, self: Any, reader: Any, event: int, path: Path) -> Any:
        module = _module("store.snapshots")
        known = module.read(path)
        reader.events_crc = lambda last: known.events_crc
        return original(self, reader, event, path)

    _wrap(_module("store.space").Space, "_replica_of", replica_of)


@fault("filters trust rows that nobody read", "test_snapshots.py -k would_not_see")
def no_audit() -> None:
    _module("store.space").Space._audit = _nothing


@fault("a backup is not checked", "test_transfer.py -k damaged_space")
def backup_unchecked() -> None:
    import types

    sound = types.SimpleNamespace(ok=True, memories=0, events=0, problems=[], warnings=[])
    module = _module("store.upkeep")
    module.check_journal = lambda journal: journal.close() or sound
    module.replace = lambda report, **_: report


# One order of events


@fault("a replay leaves out the first event that is new", "test_processes.py -k sees_it_at_once")
def replay_off_by_one() -> None:
    def events(original: Any, self: Any, after: int, limit: int, until: int = 0) -> Any:
        found = original(self, after, limit, until)
        return found[1:] if after and len(found) > 1 else found

    _wrap(_module("store.reader").Reader, "events", events)


@fault("slots are used again", "test_store.py -k never_used_twice")
def slots_again() -> None:
    def highest(self: Any) -> int:
        query = "SELECT coalesce(max(slot), 0) FROM memories"
        return int(self._connection.execute(query).fetchone()[0])

    _module("store.transaction").Transaction.highest_slot = highest


@fault("a recall does not look for what others wrote", "test_processes.py -k sees_it_at_once")
def no_catching_up() -> None:
    def read(original: Any, self: Any, work: Any) -> Any:
        if not self._applied:
            return original(self, work)
        with self.journal.reader() as reader:
            return work(reader, self._replica)

    _wrap(_module("store.space").Space, "read", read)


@fault("what others wrote is skipped by a writer", "test_state.py -k agree")
def writers_skip_others() -> None:
    def change(original: Any, self: Any, work: Any, newest: int) -> Any:
        return original(self, _nothing if newest % 7 == 0 and self._applied else work, newest)

    _wrap(_module("store.space").Space, "_change", change)


@fault("the lock of snapshots is not taken", "test_snapshots.py -k waits")
def no_lock() -> None:
    @contextlib.contextmanager
    def exclusive(folder: Path, timeout: float) -> Iterator[None]:
        yield

    _module("store.snapshots").exclusive = exclusive


@fault("a fork uses its parent's connections", "test_processes.py -k fork")
def forks_unnoticed() -> None:
    _module("store.journal").Journal.forked = property(lambda self: False)


@fault("a look at the file takes SQLite's locks away", "test_processes.py -k takes_no_lock")
def locks_dropped() -> None:
    _module("store.journal")._used = frozenset


@fault("waiting for other writers takes no time", "test_processes.py -k 'held or shortly'")
def no_busy_timeout() -> None:
    def connect(original: Any, path: Any, timeout: float, *rest: Any) -> Any:
        return original(path, 0.0, *rest)

    _wrap(_module("store.journal"), "_connect", connect)


# What goes


@fault("a forgotten memory stays in the index", "test_memory.py -k forget")
def forgotten_in_index() -> None:
    _module("lexical").TextIndex.erase = lambda self, slots: 0


@fault("an update leaves the tags of before", "test_memory.py -k 'update or tag'")
def stale_tags() -> None:
    def known(original: Any, self: Any, names: Any) -> Any:
        return {name: row._replace(tags="[]") for name, row in original(self, names).items()}

    _wrap(_module("store.transaction").Transaction, "_known", known)


@fault("an update leaves the vectors of before", "test_modes.py test_transfer.py")
def stale_vectors() -> None:
    _module("store.transaction").Transaction._drop_vectors = _nothing


@fault("erasing leaves the log as it is", "test_upkeep.py -k erased")
def log_not_emptied() -> None:
    def compact(self: Any) -> None:
        with self._turns():
            self._writer.execute("VACUUM")

    _module("store.journal").Journal.compact = compact


@fault("erasing leaves snapshots", "test_snapshots.py -k erased")
def snapshots_not_erased() -> None:
    _module("store.snapshots").remove_all = _nothing


@fault("a replica writes what was erased again", "test_snapshots.py -k 'erased or erasure'")
def erased_comes_back() -> None:
    def rebuild(original: Any, self: Any, reader: Any) -> None:
        if not self._applied:  # when a space is opened, but not before a snapshot
            original(self, reader)

    _wrap(_module("store.space").Space, "_rebuild", rebuild)


# Snapshots


@fault("a snapshot says one event less than it has", "test_snapshots.py -k opening_from")
def snapshot_off_by_one() -> None:
    def write(original: Any, folder: Path, manifest: Any, save: Any) -> Any:
        import dataclasses

        low = dataclasses.replace(manifest, event=manifest.event - 1)
        return original(folder, low, save)

    _wrap(_module("store.snapshots"), "write", write)


@fault("a snapshot forgets what a session told last", "test_snapshots.py -k 'opening or goes_on'")
def sessions_forgotten() -> None:
    def sessions(original: Any, self: Any) -> Any:
        return {**original(self), "recent": [], "newest": []}

    _wrap(_module("store.graphs").Graphs, "sessions", sessions)


@fault("names are not in a snapshot", "test_snapshots.py -k 'opening_from or goes_on'")
def names_forgotten() -> None:
    _module("store.mentions").Mentions.load_parts = _nothing


@fault("what no snapshot holds is not made", "test_snapshots.py -k opening_from")
def not_filled() -> None:
    def fill(self: Any, reader: Any, batch: int) -> None:
        self._filled = True

    _module("store.replica").Replica.fill = fill


@fault("all snapshots are kept", "test_snapshots.py -k 'opening_from or by_themselves'")
def snapshots_kept() -> None:
    _module("store.snapshots").KEPT = 1000


# Pruning


@fault("what the events taught that are taken out is lost", "test_pruning.py -k changes_no_state")
def pruned_and_lost() -> None:
    _module("store.replica").Replica.take_checkpoint = _nothing


@fault("a replay adds the latest rows to what a reflection made", "test_replay.py -k one_state")
def reflection_doubled() -> None:
    def put(original: Any, self: Any, rows: Any, told: bool = False) -> None:
        original(self, rows)

    _wrap(_module("store.graphs").Graphs, "put", put)


@fault("a replica that is behind does not look what was forgotten", "test_pruning.py -k changes")
def pruned_and_kept() -> None:
    def begin(original: Any, self: Any, reader: Any, pruned: Any) -> Any:
        reader.slots = lambda: iter([(slot, 0) for slot in self._replica.records.slots().tolist()])
        return original(self, reader, pruned)

    _wrap(_module("store.space").Space, "_begin_pruned", begin)


@fault("nothing is pruned by itself", "test_pruning.py -k do_not_grow")
def never_pruned() -> None:
    _module("store.space").Space._prune_if_due = _nothing


# Copies


@fault("a backup copies files while others write", "test_transfer.py -k backup")
def backup_by_files() -> None:
    def copy_to(self: Any, path: Path) -> None:
        import shutil

        shutil.copyfile(self.path, path)

    _module("store.journal").Journal.copy_to = copy_to


@fault("an export leaves out why a memory is suppressed", "test_transfer.py -k round_trip")
def export_forgets() -> None:
    def as_dict(original: Any, row: Any, vectors: Any) -> Any:
        item = original(row, vectors)
        item.pop("suppressed", None)
        return item

    _wrap(_module("store.transfer"), "_as_dict", as_dict)


def run(name: str | None, tests: str) -> tuple[bool, str]:
    """Whether the tests pass with a fault, and the end of what they said."""
    import shlex

    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS / "torture" / "site"), str(TESTS)]),
        "SPECTOR_PLANTED": name or "",
    }
    arguments = [str(TESTS / part) if part.endswith(".py") else part for part in shlex.split(tests)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=240
        )
    except subprocess.TimeoutExpired:
        return False, "hangs"
    # 1: tests failed. Anything else but 0 means that the tests did not run.
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run {tests!r}:\n{done.stdout}{done.stderr}")
    failures = [line for line in done.stdout.split("\n") if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failures[0].split(" - ")[0] if failures else ""


def main() -> int:
    chosen = sys.argv[1:] or list(FAULTS)

    def planted(name: str) -> tuple[bool, str, float]:
        start = time.monotonic()
        passed, where = run(name, FAULTS[name].tests)
        return passed, where, time.monotonic() - start

    def control(tests: str) -> bool:
        return run(None, tests)[0]

    with ThreadPoolExecutor(LANES) as lanes:
        results = [(name, lanes.submit(planted, name)) for name in chosen]
        tests = list(dict.fromkeys(FAULTS[name].tests for name in chosen))
        controls = [(each, lanes.submit(control, each)) for each in tests]
        missed = 0
        for name, result in results:
            passed, where, seconds = result.result()
            missed += passed
            verdict = "MISSED" if passed else "caught"
            print(f"{verdict}  {name:24}{FAULTS[name].what} ({seconds:.0f} s)", flush=True)
            if where:
                print(f"{'':8}{where}", flush=True)
        unharmed = {each: result.result() for each, result in controls}
    blind = [each for each, passed in unharmed.items() if not passed]
    for each in blind:
        print(f"{each!r} fails without a fault")
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > MISSES or bool(blind))


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    raise SystemExit(main())
