"""AutoClip (Seetharaman et al., 2020) against numpy's percentile."""

from __future__ import annotations

import numpy as np
import pytest

from holter.producers.torch.clip import AutoClip
from tests.producers.torch.clip.gradients import feed

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("percentile", [0.0, 10.0, 50.0, 100.0])
def test_the_ceiling_is_the_percentile_of_what_came(percentile: float) -> None:
    norms = np.random.default_rng(0).lognormal(size=30).tolist()
    clipper = AutoClip(percentile, window=12)
    for step, norm in enumerate(norms):
        history = norms[max(0, step - 11) : step + 1]
        expected = min(norm, float(np.percentile(history, percentile)))
        assert feed(clipper, [norm]) == pytest.approx([expected], rel=1e-4)
