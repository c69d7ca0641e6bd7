"""Whether clipping will ever act, and whether it acts all the time."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, fine, not_checked

NAME = "clip threshold"
_NEVER, _ALWAYS = 10.0, 0.02


def check(examined: Examined) -> Iterator[Finding]:
    clip = examined.subject.clip
    if clip is None:
        yield not_checked(NAME, "no clip= was given; say 0 where nothing is clipped")
        return
    norm = examined.first_step.grad_norm
    if not math.isfinite(norm):
        yield Finding(NAME, "serious", f"the first gradient norm is {norm}", norm, clip, *_NON_FINITE)
    elif clip <= 0.0:
        what = f"gradients are not clipped; the first norm is {norm:.2f}"
        yield Finding(NAME, "warning", what, norm, None, *_UNCLIPPED)
    elif clip > _NEVER * norm:
        what = f"it is {clip / norm:.0f} times the first gradient norm ({clip:g} and {norm:.3g})"
        yield Finding(NAME, "warning", what, clip / norm, _NEVER, *_LOOSE)
    elif clip < _ALWAYS * norm:
        what = f"it is {clip / norm:.2g} of the first gradient norm ({clip:g} and {norm:.3g})"
        yield Finding(NAME, "warning", what, clip / norm, _ALWAYS, *_TIGHT)
    else:
        yield fine(NAME, f"{clip:g}, with a first gradient norm of {norm:.3g}", clip / norm)


_NON_FINITE = ("no clipper helps: scaling NaN or infinity gives NaN", "find what makes it in the first backward pass")
_UNCLIPPED = (
    "one bad batch enters Adam's second moment and slows the hit weights for thousands of steps at β2 = .999",
    "clip the global norm at 1.0, or adaptively (Guard(clip=…))",
)
_LOOSE = (
    "norms fall during training, so nothing below that multiple of a usual gradient is ever clipped",
    "lower it to about the first norm, or clip adaptively (zclip, adagc)",
)
_TIGHT = (
    "every step is scaled, so the threshold is a learning rate and no protection against the unusual",
    "raise it, or find what makes the gradient so large; unscale before clipping under a loss scale",
)
