"""Optimizers that keep a run stable: the published rules, each as its authors give it."""

from holter.producers.torch.optim.clippy import Clippy
from holter.producers.torch.optim.clippy_adagrad import ClippyAdagrad
from holter.producers.torch.optim.make import OPTIMIZERS, make
from holter.producers.torch.optim.msign import MSign, attention_projections
from holter.producers.torch.optim.skip_step import SkipStep
from holter.producers.torch.optim.spam import Spam
from holter.producers.torch.optim.stable_spam import StableSpam

__all__ = [
    "OPTIMIZERS",
    "Clippy",
    "ClippyAdagrad",
    "MSign",
    "SkipStep",
    "Spam",
    "StableSpam",
    "attention_projections",
    "make",
]
