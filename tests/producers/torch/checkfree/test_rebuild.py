"""The formula and the orders, against hand-computed values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from holter.producers.torch.checkfree import execution_order, rebuild, sources

pytestmark = pytest.mark.torch


def stage(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(5, 3, generator=generator), torch.randn(7, generator=generator)]


def test_weights_are_averaged_by_the_gradient_norms() -> None:
    before, after = stage(0), stage(1)
    for own, earlier, later in zip(rebuild(before, after, 1.0, 3.0), before, after, strict=True):
        torch.testing.assert_close(own, (earlier + 3.0 * later) / 4.0)


def test_the_result_lies_between_the_neighbours_whatever_the_norms() -> None:
    before, after = stage(2), stage(3)
    for norms in ((1e-4, 1.0), (0.3, 0.7), (5.0, 1e-3)):
        for own, earlier, later in zip(rebuild(before, after, *norms), before, after, strict=True):
            assert (own >= torch.minimum(earlier, later) - 1e-6).all()
            assert (own <= torch.maximum(earlier, later) + 1e-6).all()


def test_a_neighbour_that_learns_nothing_leaves_a_copy_of_the_other() -> None:
    before, after = stage(4), stage(5)
    assert all(torch.equal(own, earlier) for own, earlier in zip(rebuild(before, after, 2.0, 0.0), before, strict=True))
    assert all(torch.equal(own, later) for own, later in zip(rebuild(before, after, 0.0, 2.0), after, strict=True))


def test_only_the_ratio_of_the_norms_counts() -> None:
    before, after = stage(6), stage(7)
    for one, other in zip(rebuild(before, after, 1.0, 3.0), rebuild(before, after, 8.0, 24.0), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("norms", [(0.0, 0.0), (-1.0, 2.0), (math.nan, 1.0), (1.0, math.inf)])
def test_norms_that_say_nothing_are_refused(norms: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="give no weights"):
        rebuild(stage(0), stage(1), *norms)


def test_stages_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="unequal shapes"):
        rebuild(stage(0), stage(1)[:1], 1.0, 1.0)


def test_every_other_microbatch_swaps_both_ends() -> None:
    assert [execution_order(number, 4, swaps=True) for number in range(3)] == [
        (0, 1, 2, 3),
        (1, 0, 3, 2),
        (0, 1, 2, 3),
    ]
    assert execution_order(1, 6, swaps=True) == (1, 0, 2, 3, 5, 4)
    assert execution_order(1, 6, swaps=False) == (0, 1, 2, 3, 4, 5)
    with pytest.raises(ValueError, match="needs 4 stages"):
        execution_order(0, 3, swaps=True)


def test_a_stage_is_made_of_both_neighbours_and_an_end_copied_where_ends_swap() -> None:
    assert [sources(lost, 5, swaps=True) for lost in range(5)] == [(1,), (0, 2), (1, 3), (2, 4), (3,)]
    for lost in (0, 4):
        with pytest.raises(ValueError, match="one neighbour only"):
            sources(lost, 5, swaps=False)
    with pytest.raises(ValueError, match="no stage 5"):
        sources(5, 5, swaps=True)
