"""The orthogonal factor of a matrix, exactly or by matrix products alone."""

from __future__ import annotations

from typing import Literal

import torch

Form = Literal["svd", "newton_schulz"]
_LIFTING = (3.4445, -4.7750, 2.0315)
"""Jordan et al. 2024 ("Muon"): lifts small singular values by 3.44 a round and keeps all below 1.3."""
_POLISHING = (15 / 8, -10 / 8, 3 / 8)
"""Kovarik 1970; Björck and Bowie 1971: what is within .5 of 1 converges to it at third order."""


def same_norm_polar(matrix: torch.Tensor, form: Form = "svd") -> torch.Tensor:
    """W ← ‖W‖_F · U Vᵀ / ‖U Vᵀ‖_F with W = U S Vᵀ: all singular values equal, the Frobenius norm as before.

    A matrix that is not finite is given back as it is.

    >>> same_norm_polar(torch.diag(torch.tensor([3.0, 4.0])))
    tensor([[3.5355, 0.0000],
            [0.0000, 3.5355]])
    """
    wide = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
    norm = torch.linalg.matrix_norm(wide)
    is_finite = torch.isfinite(norm)
    wide = torch.where(is_finite, wide, 0.0)  # the decomposition raises on what is not finite
    factor = polar_factor(wide) if form == "svd" else newton_schulz(wide)
    size = torch.linalg.matrix_norm(factor)
    restored = factor * torch.where(size > 0, norm / size, 0.0)
    return torch.where(is_finite, restored.to(matrix.dtype), matrix)


def polar_factor(matrix: torch.Tensor) -> torch.Tensor:
    """U Vᵀ of the thin decomposition, by SVD, which waits for the device.

    Directions whose singular value is 0 up to rounding stay 0: any vector would do for them, and the row and column
    spaces would not be kept.
    """
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    smallest = values[0] * max(matrix.shape) * torch.finfo(values.dtype).eps
    factor: torch.Tensor = (left * (values > smallest)) @ right
    return factor


def newton_schulz(matrix: torch.Tensor, num_lifting: int = 8, num_polishing: int = 4) -> torch.Tensor:
    """The same by odd polynomials of fifth degree, X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X; nothing waits for the device.

    Singular values from about 1e-4 of the Frobenius norm on reach 1; smaller ones stay below it.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    current = matrix.mT if is_tall else matrix
    norm = torch.linalg.matrix_norm(current)
    current = current / torch.where(norm > 0, norm, 1.0)
    for a, b, c in [_LIFTING] * num_lifting + [_POLISHING] * num_polishing:
        gram = current @ current.mT
        current = a * current + (b * gram + c * gram @ gram) @ current
    return current.mT if is_tall else current


def stable_rank(matrix: torch.Tensor) -> torch.Tensor:
    """‖W‖_F² / ‖W‖₂².

    >>> stable_rank(torch.diag(torch.tensor([3.0, 4.0])))
    tensor(1.5625)
    """
    rank: torch.Tensor = (torch.linalg.matrix_norm(matrix) / torch.linalg.matrix_norm(matrix, 2)).square()
    return rank
