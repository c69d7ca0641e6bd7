"""The largest factor by which a function stretches its input."""

from __future__ import annotations

import torch


def jacobian_norm(outputs: torch.Tensor, inputs: torch.Tensor, num_iterations: int = 12) -> float:
    """‖∂outputs/∂inputs‖₂ by power iteration on JᵀJ, approached from below.

    J v is the derivative of the vector-Jacobian product, which is linear in its vector.

    >>> x = torch.ones(2, requires_grad=True)
    >>> round(jacobian_norm(x @ torch.diag(torch.tensor([3.0, 0.5])), x), 4)
    3.0
    """
    weights = torch.zeros_like(outputs, requires_grad=True)
    (pulled,) = torch.autograd.grad(outputs, inputs, weights, create_graph=True)
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(inputs.shape, generator=generator).to(inputs)
    stretch = 0.0
    for _ in range(num_iterations):
        direction = direction / torch.linalg.vector_norm(direction).clamp(min=1e-30)
        (pushed,) = torch.autograd.grad(pulled, weights, direction, retain_graph=True)
        stretch = float(torch.linalg.vector_norm(pushed))
        (direction,) = torch.autograd.grad(outputs, inputs, pushed, retain_graph=True)
    return stretch
