"""The guard for PyTorch loops."""

from holter.producers.torch.guard import Guard

__all__ = ["Guard"]
