"""Check that no kernel object offers code that other code could pick up.

The linker keeps one copy of each weak symbol. If the AVX-512 object held a shared inline function
(of the standard library, say), that copy could run on machines without AVX-512. So every weak
function in the object of an instruction set must carry the name of that set. Run by ctest on
optimised builds (without optimisation nothing is inlined and the rule cannot hold).

usage: check_isa_objects.py ARCH OBJECT...
"""

import re
import subprocess
import sys


def strangers(arch: str, objects: list[str]) -> list[str]:
    """Weak functions in `objects` that do not name `arch`."""
    listing = subprocess.run(
        ["nm", "--demangle", "--defined-only", *objects], check=True, capture_output=True, text=True
    ).stdout
    symbols = re.findall(r"^[0-9a-f]+ [Ww] (.+)$", listing, re.MULTILINE)
    if not any(arch in symbol for symbol in symbols):
        return [f"no kernel for {arch} at all"]
    return [symbol for symbol in symbols if arch not in symbol]


def main() -> int:
    arch, *objects = sys.argv[1:]
    found = strangers(arch, objects)
    for symbol in found:
        print(f"{arch}: {symbol}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
