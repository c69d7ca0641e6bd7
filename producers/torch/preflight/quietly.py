"""Runs a model without leaving a trace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def quietly(model: nn.Module) -> Iterator[None]:
    """In evaluation mode, with attention that can be differentiated twice; modes and random states are put back."""
    modes = {module: module.training for module in model.modules()}
    devices = sorted({each.device.index or 0 for each in model.parameters() if each.device.type == "cuda"})
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=devices))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(torch.enable_grad())
        model.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training


def reason(error: Exception) -> str:
    """An error in one short line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
