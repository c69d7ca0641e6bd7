"""Whether what layers add to the residual stream begins small enough (Spike No More, 2312.16903)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holter.producers.torch.preflight.anatomy import Block, sigma
from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, Severity, fine, not_checked
from holter.producers.torch.preflight.probe import Layer
from holter.producers.torch.preflight.shortcut import SMALL_STRETCH

NAME = "sub-layer scale"
_LENIENCE = 1.8
"""Of the ratio that the paper wants, what is still taken for it: fan-in rules make 1/2 of it for d_ffn = 4 d."""
_FEWEST_LAYERS = 4


def check(examined: Examined) -> Iterator[Finding]:
    blocks, layers = examined.anatomy.blocks, examined.probe.layers
    if len(blocks) < _FEWEST_LAYERS:
        yield fine(NAME, f"{len(blocks)} layers are too few for their sum to matter", float(len(blocks)))
        return
    ratios = [ratio for block in blocks if not math.isnan(ratio := _ratio(block))]
    obstacle = _obstacle(blocks, layers) or ("" if ratios else "the feed-forward matrices were not recognised")
    if obstacle:
        yield not_checked(NAME, obstacle)
        return
    yield _judged(max(ratios), len(blocks), layers)


def _obstacle(blocks: Sequence[Block], layers: Sequence[Layer]) -> str:
    """Why the size of the matrices says nothing; empty where it does."""
    if not layers[0].is_pre_norm or any(layer.outputs_are_normed for layer in layers):
        return "the layers norm what they add, or are not pre-norm as far as can be seen"
    if any(block.has_scaled_branches for block in blocks):
        return "the layers have learned scales on what they add"
    return ""


def _judged(worst: float, num_layers: int, layers: Sequence[Layer]) -> Finding:
    wanted = 1.0 / math.sqrt(2.0 * num_layers)
    what = f"σ of output over input matrix of the feed-forward part is {worst:.2f} in {num_layers} layers"
    if worst <= _LENIENCE * wanted:
        return fine(NAME, what, worst, wanted)
    why = f"the paper's condition is 1/√(2N) = {wanted:.2f}; without it the stream and the gradients grow with depth"
    fix = "initialise output matrices of attention and feed-forward part with σ / √(2N), or norm what layers add"
    largest = max((layer.jacobian for layer in layers if not math.isnan(layer.jacobian)), default=math.inf)
    severity: Severity = "note" if largest < SMALL_STRETCH else "warning"
    return Finding(NAME, severity, what, worst, wanted, why, fix)


def _ratio(block: Block) -> float:
    if block.up is None or block.down is None:
        return math.nan
    incoming = sigma(block.up)
    return sigma(block.down) / incoming if incoming > 0.0 else math.nan
