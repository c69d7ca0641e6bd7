"""Sees queries, keys and logits of attention as they pass through PyTorch's functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SOFTMAX = (functional.softmax, torch.softmax, torch.Tensor.softmax)
_EQUAL_NORMS = 0.01
"""Norms of queries that differ by less than this share have been made equal: by chance they differ by far more."""


class AttentionWatch(TorchFunctionMode):
    """While it is entered; ``max_logit`` is -1 where no attention was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.max_logit = -1.0
        self.normalised: list[bool] = []
        """For every call that shows queries and keys: whether they have the same norm at all places."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func is functional.scaled_dot_product_attention:
            self._see_queries(args, options)
        elif func in _SOFTMAX and args and args[0].dim() == 4:
            self._see_logits(args[0])
        return func(*args, **options)

    @torch.no_grad()
    def _see_queries(self, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        query = args[0] if args else options["query"]
        key = args[1] if len(args) > 1 else options["key"]
        scale = options.get("scale") or 1.0 / math.sqrt(query.shape[-1])
        query, key = query.detach().float(), key.detach().float()
        self.normalised.append(_is_normalised(query) and _is_normalised(key))
        if query.shape[1] != key.shape[1] and query.shape[1] % key.shape[1] == 0:
            key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        self._note((query @ key.transpose(-1, -2)).abs().max() * scale)

    @torch.no_grad()
    def _see_logits(self, logits: torch.Tensor) -> None:
        finite = logits.detach().float()
        self._note(finite[finite > torch.finfo(logits.dtype).min / 4].abs().max())  # masks lie at the far end

    def _note(self, largest: torch.Tensor) -> None:
        self.max_logit = max(self.max_logit, float(largest))


def _is_normalised(vectors: torch.Tensor) -> bool:
    norms = torch.linalg.vector_norm(vectors, dim=-1)
    return norms.numel() > 1 and float(norms.std()) < _EQUAL_NORMS * float(norms.mean())
