"""Profiles: sets of defaults for the options of a recall (PRO-1 to PRO-15).

Thresholds are those of the specification less that of "balanced", which is 0 here: expansion of
memories that no list found is not gated by default, because that is what wins on the shared sets
(AM-13, docs/quality.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["AUTO", "DEFAULT", "GOVERNED", "PROFILES"]

DEFAULT: Final = "balanced"
#: The adaptor chooses (PAD-1).
AUTO: Final = "auto"

#: The options that a profile may set, as "balanced" has them.
GOVERNED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "alpha": 0.6,
        "beta": 0.4,
        "gamma": 1.0,
        "strictness": 1.0,
        "type": None,
        "min_valence": None,
        "max_valence": None,
        "min_importance": None,
        "query_valence": None,
        "scoring_mode": "cognitive",
        "graph_expansion": True,
        "graph_expansion_threshold": 0.0,
        "lateral": False,
    }
)

_STRICTER: Final = 0.1  # .80 where "balanced" has .70

#: By name, in the order of the specification, which breaks ties (PAD-4).
PROFILES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "balanced": {},
        "exploring": {"alpha": 0.8, "beta": 0.2, "gamma": 0.33},
        "debugging": {
            "alpha": 0.3,
            "beta": 0.7,
            "gamma": 1.67,
            "max_valence": -10,
            "graph_expansion_threshold": _STRICTER,
        },
        "recalling": {"alpha": 0.4, "beta": 0.6, "min_valence": 10},
        "critical": {
            "alpha": 0.2,
            "beta": 0.8,
            "gamma": 1.33,
            "graph_expansion_threshold": _STRICTER,
        },
        "hyperfocus": {"alpha": 1.0, "beta": 0.0, "gamma": 0.67, "graph_expansion": False},
        "systematizer": {"alpha": 0.3, "beta": 0.7, "graph_expansion_threshold": _STRICTER / 2},
        "divergent": {"alpha": 0.8, "beta": 0.2, "gamma": 0.67, "lateral": True},
        "paranoid_sentinel": {
            "alpha": 0.2,
            "beta": 0.8,
            "gamma": 1.67,
            "max_valence": -1,
            "query_valence": -128,
            "graph_expansion_threshold": _STRICTER,
        },
        "the_executor": {
            "alpha": 0.3,
            "beta": 0.7,
            "gamma": 1.33,
            "strictness": 10.0,
            "graph_expansion_threshold": _STRICTER,
        },
        "highly_sensitive": {"alpha": 0.7, "beta": 0.3, "min_importance": 0.01},
        "default_mode_network": {
            "alpha": 0.2,
            "beta": 0.8,
            "gamma": 0.33,
            "type": ("semantic", "procedural"),
        },
        "executive_dysfunction": {
            "alpha": 0.3,
            "beta": 0.7,
            "gamma": 0.33,
            "scoring_mode": "associative",
            "lateral": True,
        },
    }
)
