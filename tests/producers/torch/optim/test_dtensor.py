"""Over gloo: what is spread over ranks is trained as the whole is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.producers.torch.clip.dtensors import step_both
from tests.producers.torch.several_ranks import run_ranks

pytestmark = [pytest.mark.torch, pytest.mark.network]

KINDS: dict[str, dict[str, Any]] = {
    "clippy": {"lr": 0.5},
    "spam": {"lr": 0.01, "interval": 6},
    "stable_spam": {"lr": 0.01},
    "msign": {"lr": 0.01, "every": 3},
    "skip_step": {"lr": 0.01, "window": 32},
}


@pytest.mark.parametrize("mesh", [(2,), (4,), (2, 2)])
def test_a_spread_model_is_trained_as_the_whole(mesh: tuple[int, ...], tmp_path: Path) -> None:
    run_ranks(step_both, math.prod(mesh), tmp_path, mesh, *KINDS.items())
