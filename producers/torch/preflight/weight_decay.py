"""Which weights are decayed that better are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, fine, not_checked

EMBEDDINGS, NORMS = "weight decay on embeddings", "weight decay on norms and biases"


def check(examined: Examined) -> Iterator[Finding]:
    """OLMo 2 (2501.00656): without decay of embeddings .092 % instead of .16 % of its gradient norms were spikes."""
    optimizer, model = examined.subject.optimizer, examined.subject.model
    if optimizer is None:
        yield not_checked("weight decay", "no optimizer was given")
        return
    decays = {
        id(weight): float(group.get("weight_decay", 0.0))
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    tables = {id(table.weight) for table in examined.anatomy.embeddings.values()}
    decayed = [(name, each) for name, each in model.named_parameters() if decays.get(id(each), 0.0) > 0.0]
    embeddings = [name for name, each in decayed if id(each) in tables]
    yield _embeddings(embeddings, decays, examined)
    yield _norms([(name, each) for name, each in decayed if each.dim() <= 1])


def _embeddings(names: Sequence[str], decays: dict[int, float], examined: Examined) -> Finding:
    if not examined.anatomy.embeddings:
        return not_checked(EMBEDDINGS, "no embeddings were found")
    if not names:
        return fine(EMBEDDINGS, "embeddings are not decayed", 0.0)
    weights = dict(examined.subject.model.named_parameters())
    largest = max(decays[id(weights[name])] for name in names)
    what = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} decayed by {largest:g}"
    why = "embeddings shrink, and gradients through the first norm grow; OLMo 2 had .16 % spikes with it, .09 % without"
    fix = "put them into a parameter group with weight_decay=0"
    if examined.anatomy.head is not None and id(examined.anatomy.head.weight) in {id(weights[name]) for name in names}:
        fix += " (they are the output matrix too)"
    return Finding(EMBEDDINGS, "warning", what, largest, 0.0, why, fix)


def _norms(found: Sequence[tuple[str, torch.Tensor]]) -> Finding:
    if not found:
        return fine(NORMS, "norms and biases are not decayed", 0.0)
    what = f"{len(found)} vectors are decayed, such as {found[0][0]}"
    why = "gains are pulled to 0 instead of 1, and biases need no decay"
    fix = "put parameters of one dimension into a group with weight_decay=0"
    return Finding(NORMS, "note", what, float(len(found)), 0.0, why, fix)
