"""The guard for PyTorch loops."""

from holter.producers.torch.explosions import SkipExplosions
from holter.producers.torch.guard import Guard
from holter.producers.torch.hooks import Hooks
from holter.producers.torch.preflight import preflight

__all__ = ["Guard", "Hooks", "SkipExplosions", "preflight"]
