"""On the path of the processes that `planted.py` starts: plants the fault before anything runs."""

import os

if os.environ.get("SPECTOR_PLANTED"):
    from torture.planted import FAULTS

    FAULTS[os.environ["SPECTOR_PLANTED"]].plant()
