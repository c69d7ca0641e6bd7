"""Over gloo: what is spread over ranks is clipped as the whole is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.producers.torch.clip.dtensors import clip_both
from tests.producers.torch.clip.test_ranks import OPTIONS
from tests.producers.torch.several_ranks import run_ranks

pytestmark = [pytest.mark.torch, pytest.mark.network]


@pytest.mark.parametrize("mesh", [(2,), (4,), (2, 2)])
def test_a_spread_model_is_clipped_as_the_whole(mesh: tuple[int, ...], tmp_path: Path) -> None:
    run_ranks(clip_both, math.prod(mesh), tmp_path, mesh, *OPTIONS.items())
