"""Whether anything bounds the logits of attention."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, Severity, fine, not_checked

NAME, SIZE = "QK-norm", "attention logits"
_LARGE, _LOST = 100.0, 1000.0
_HIGH_RATE = 3e-3


def check(examined: Examined) -> Iterator[Finding]:
    """Wortsman et al. (2309.14322): every run whose largest logit passed 1e4 diverged, and 1e3 hurt already."""
    attention = examined.probe.attention
    largest = attention.max_logit
    if largest >= 0.0:
        what = f"the largest before training is {largest:.1f}"
        if largest < _LARGE:
            yield fine(SIZE, what, largest, _LARGE)
        else:
            why = "attention is a single token's from the start; logits grow in training, and above 1e4 runs diverge"
            fix = "initialise queries and keys smaller, divide by √d_head, or norm them"
            yield Finding(SIZE, "serious" if largest >= _LOST else "warning", what, largest, _LARGE, why, fix)
    blocks = examined.anatomy.blocks
    if any(block.has_named_qk_norm() for block in blocks) or (attention.normalised and all(attention.normalised)):
        yield fine(NAME, "queries and keys are normed")
        return
    is_plain = any(isinstance(each, nn.MultiheadAttention) for each in blocks[0].module.modules())
    if not attention.normalised and not is_plain:
        yield not_checked(NAME, "attention is computed where queries and keys cannot be seen")
        return
    yield _missing(examined)


def _missing(examined: Examined) -> Finding:
    optimizer = examined.subject.optimizer
    rate = (
        0.0
        if optimizer is None
        else float(optimizer.param_groups[0].get("initial_lr", optimizer.param_groups[0]["lr"]))
    )
    severity: Severity = "warning" if rate >= _HIGH_RATE else "note"
    why = "logits of attention grow with the learning rate, and nothing holds them (Wortsman et al., 2309.14322)"
    fix = "norm queries and keys of every head before their product (QK-norm), or clip their weights (QK-Clip)"
    return Finding(
        NAME,
        severity,
        f"none of {len(examined.anatomy.blocks)} layers norms queries and keys",
        rate,
        _HIGH_RATE,
        why,
        fix,
    )
