"""What a run was made on, as the first line of its records."""

from __future__ import annotations

import os
import platform
from typing import Any

import spector


def machine(**more: Any) -> dict[str, Any]:
    """The machine, how busy it is, and whatever else decides the figures."""
    return {
        "kind": "machine",
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "simd": spector.simd_level(),
        "load_average": round(os.getloadavg()[0], 2),
        **more,
    }
