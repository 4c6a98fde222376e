"""The checks, with their sizes for each change and for a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture import arguments, crashes, damage, faults, histories
from torture.harness import Outcome


@dataclass(frozen=True)
class Check:
    """A promise of reliability and what tries to break it."""

    label: str
    promise: str
    run: Callable[[Path, int, int], Outcome]
    rounds: int
    release: int
    lanes: int = 1  # how many processes work at the same time


# Those with two lanes first, then the long ones.
CHECKS = (
    Check("R5", "a changed byte gives right answers or none", damage.every_byte, 40_000, 10**9, 2),
    Check("R2", "every call that writes fails once", faults.every_step, 1500, 100_000, 2),
    Check("R7", "no memory is an error, not damage", faults.no_memory, 300, 10_000, 2),
    Check("R8", "many processes, locks die with them", crashes.many_openings, 100, 100, 2),
    Check("PER-10", "processes agree on one state", histories.processes, 2000, 2000, 2),
    Check("R15", "descriptors, memory and disk are bounded", crashes.growth, 500, 2000),
    Check("R1", "kill -9 loses nothing acknowledged", crashes.kills, 200, 2000),
    Check("R9", "recalls see what was acknowledged", histories.recorded, 4000, 20_000),
    Check("R3", "power cuts lose nothing acknowledged", faults.power_cuts, 25, 200),
    Check("R10", "forks, exits, dropped objects", crashes.exits, 150, 600),
    Check("R5w", "a damaged log goes back, never apart", damage.torn_logs, 400, 10_000),
    Check("R4", "crashes during recovery", crashes.double_faults, 6, 100),
    Check("R6", "a full disk is an error, not damage", faults.full_disks, 4, 12),
    Check("R12", "any argument is answered or refused", arguments.any_arguments, 20_000, 100_000),
    Check("R16", "erased is gone from all files", damage.erased, 25, 300),
)
