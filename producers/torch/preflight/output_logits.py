"""Whether anything holds the logits of the vocabulary, and whether they begin near zero."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, fine, not_checked

Z_LOSS, FIRST_LOSS = "z-loss", "first loss"
_SHARE = 1.1
_MOST_ABOVE = 1.0
_FELT = 1e-4


def check(examined: Examined) -> Iterator[Finding]:
    step = examined.first_step
    if not math.isfinite(step.loss):
        fix = "look for zeros in denominators, logs of zero, masked rows, and overflow of a 16-bit type"
        yield Finding(
            FIRST_LOSS, "serious", f"it is {step.loss}", step.loss, None, "no step can be taken from here", fix
        )
        return
    yield _first_loss(examined, step.loss)
    if math.isnan(step.shift):
        yield not_checked(Z_LOSS, "the matrix that makes the logits was not seen in the forward pass")
    elif abs(step.shift) > _FELT * max(1.0, abs(step.loss)):
        yield fine(Z_LOSS, f"adding 8 to all logits changes the loss by {step.shift:+.2g}: they are held", step.shift)
    else:
        why = (
            "cross-entropy does not feel a shift of all logits, so they may drift until a narrow type cannot hold them"
        )
        fix = "add 1e-4 · log²Z to the loss (z-loss), or cap the logits softly"
        what = f"adding 8 to all logits changes the loss by {step.shift:+.1g}: nothing holds them"
        yield Finding(Z_LOSS, "note", what, step.shift, _FELT, why, fix)


def _first_loss(examined: Examined, loss: float) -> Finding:
    table = examined.anatomy.token_embedding
    if table is None or examined.anatomy.head is None:
        return not_checked(FIRST_LOSS, "no vocabulary was found that it could be held against")
    guess = math.log(table.num_embeddings)
    what = f"it is {loss:.2f}; a guess at random has ln {table.num_embeddings} = {guess:.2f}"
    if loss <= _SHARE * guess + _MOST_ABOVE:
        return fine(FIRST_LOSS, what, loss, guess)
    why = "the model is surely wrong before it has learned anything: logits begin too large, and so do gradients"
    return Finding(FIRST_LOSS, "warning", what, loss, guess, why, "initialise the output matrix smaller")
