"""Shared settings of the tests."""

import os
from pathlib import Path

import hypothesis
import pytest

# Deadlines are times, and times are not asserted here; CI prints a blob to replay a failure.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.load_profile("default")

# Evaluation sets are not part of the project: a folder beside the checkout, or SPECTOR_TEST_DATA.
DATA = Path(os.environ.get("SPECTOR_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture
def evaluation_set():
    """A function from a set's name to its folder; skips where the sets are not there."""

    def folder(name: str) -> Path:
        path = DATA / name
        if not path.is_dir():
            pytest.skip(f"no evaluation data at {path} (set SPECTOR_TEST_DATA)")
        return path

    return folder
