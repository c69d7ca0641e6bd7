"""Golden numbers and properties of MSign's polar factor (Ren et al., arXiv 2602.01734)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.producers.torch.optim.polar import Form, same_norm_polar, stable_rank

pytestmark = pytest.mark.torch

forms = pytest.mark.parametrize("form", ["svd", "newton_schulz"])


def matrix(rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@forms
def test_three_and_four_become_the_same(form: Form) -> None:
    diagonal = torch.diag(torch.tensor([3.0, 4.0]))
    restored = same_norm_polar(diagonal, form)
    torch.testing.assert_close(restored, 3.53553 * torch.eye(2), rtol=1e-5, atol=1e-5)
    assert float(stable_rank(diagonal)) == pytest.approx(1.5625)
    assert float(stable_rank(restored)) == pytest.approx(2.0, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_norm_is_kept_and_the_singular_values_are_equal(rows: int, columns: int, seed: int, scale: float) -> None:
    weight = scale * matrix(rows, columns, seed)
    restored = same_norm_polar(weight)
    assert float(restored.norm()) == pytest.approx(float(weight.norm()), rel=1e-6)
    values = torch.linalg.svdvals(restored)
    torch.testing.assert_close(values, values.mean().expand_as(values), rtol=1e-4, atol=0)
    torch.testing.assert_close(same_norm_polar(restored), restored, rtol=1e-3, atol=1e-5 * scale)


@pytest.mark.parametrize("shape", [(64, 64), (24, 96), (96, 24)])
def test_products_come_to_the_same_as_the_decomposition(shape: tuple[int, int]) -> None:
    weight = matrix(*shape, seed=1)
    exact, iterated = same_norm_polar(weight), same_norm_polar(weight, "newton_schulz")
    assert float((exact - iterated).norm() / exact.norm()) < 1e-3
    assert float(iterated.norm()) == pytest.approx(float(weight.norm()), rel=1e-6)


@pytest.mark.parametrize(("form", "rest"), [("svd", 1e-4), ("newton_schulz", 0.05)])
def test_a_matrix_of_low_rank_keeps_its_spaces(form: Form, rest: float) -> None:
    """Rounding errors of the product are singular values too, which the iteration lifts a little."""
    left, right = matrix(10, 3, 1), matrix(3, 8, 2)
    restored = same_norm_polar(left @ right, form)
    assert float(stable_rank(restored)) == pytest.approx(3.0, rel=rest)
    columns, rows = torch.linalg.qr(left).Q, torch.linalg.qr(right.mT).Q
    torch.testing.assert_close(columns @ columns.mT @ restored, restored, rtol=0, atol=rest)
    torch.testing.assert_close(restored @ rows @ rows.mT, restored, rtol=0, atol=rest)


@forms
def test_zero_stays_zero_and_nan_stays_nan(form: Form) -> None:
    assert torch.equal(same_norm_polar(torch.zeros(3, 4), form), torch.zeros(3, 4))
    broken = torch.ones(3, 4)
    broken[1, 1] = math.nan
    torch.testing.assert_close(same_norm_polar(broken, form), broken, rtol=0, atol=0, equal_nan=True)


@forms
def test_narrow_types_are_computed_wide(form: Form) -> None:
    weight = matrix(8, 8, 3)
    restored = same_norm_polar(weight.bfloat16(), form)
    assert restored.dtype == torch.bfloat16
    torch.testing.assert_close(restored.float(), same_norm_polar(weight, form), rtol=0.05, atol=0.05)
