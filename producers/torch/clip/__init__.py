"""Gradient clipping: the published rules, each as its authors give it.

>>> import torch
>>> parameter = torch.nn.Parameter(torch.zeros(2))
>>> parameter.grad = torch.tensor([3.0, 4.0])
>>> clipper = make("globalgc", max_norm=1.0)
>>> report = clipper.clip([parameter])
>>> clipper.commit()
>>> parameter.grad, float(report.norm_before)
(tensor([0.6000, 0.8000]), 5.0)
"""

from holter.producers.torch.clip.adagc import AdaGC
from holter.producers.torch.clip.agc import Agc
from holter.producers.torch.clip.autoclip import AutoClip
from holter.producers.torch.clip.clipper import Clipper
from holter.producers.torch.clip.ema_mad import EmaMad
from holter.producers.torch.clip.globalgc import GlobalGC
from holter.producers.torch.clip.make import CLIPPERS, make
from holter.producers.torch.clip.olmo import OlmoClip
from holter.producers.torch.clip.ranks import Ranks, sum_over
from holter.producers.torch.clip.report import ClipReport
from holter.producers.torch.clip.zclip import ZClip

__all__ = [
    "CLIPPERS",
    "AdaGC",
    "Agc",
    "AutoClip",
    "ClipReport",
    "Clipper",
    "EmaMad",
    "GlobalGC",
    "OlmoClip",
    "Ranks",
    "ZClip",
    "make",
    "sum_over",
]
