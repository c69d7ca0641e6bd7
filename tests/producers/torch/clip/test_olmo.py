"""The rule of OLMo's ``max_grad_norm_ratio``, written out."""

from __future__ import annotations

import pytest

from holter.producers.torch.clip import OlmoClip
from tests.producers.torch.clip.gradients import feed

pytestmark = pytest.mark.torch


def test_the_average_is_of_clipped_norms_at_the_slower_rate() -> None:
    clipper = OlmoClip(ratio=2.0, betas=(0.9, 0.8))
    average = None
    for norm in (1.0, 1.5, 10.0, 10.0, 0.5):
        after = norm if average is None else min(norm, 2.0 * average)
        assert feed(clipper, [norm]) == pytest.approx([after], rel=1e-5)
        average = after if average is None else 0.9 * average + 0.1 * after
    assert float(clipper.state_dict()["state"]["average"]) == pytest.approx(average, rel=1e-5)
