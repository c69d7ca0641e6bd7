"""The measurement in small, forest included: what ``python -m tests.diagnose.measure`` does with 64 nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnose.measure import summary, trial

pytestmark = pytest.mark.frameworks

FAULTS = ("gpu-ecc", "disk-full")


def test_l4_finds_lines_nodes_and_iterations_that_a_search_does_not(tmp_path: Path) -> None:
    done = [trial(tmp_path / fault, fault, seed, 16, 20) for seed, fault in enumerate(FAULTS)]
    ours, searched = (summary([each[name] for each in done]) for name in ("L4", "grep"))
    assert ours["f1"] >= 0.8
    assert ours["top5"] == 1.0
    assert ours["within_2_iterations"] >= 0.5
    assert searched["f1"] < 0.7
