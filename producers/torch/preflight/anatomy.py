"""Finds the parts of a transformer by their types, their shapes and the names that are usual."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

_POSITION = re.compile(r"pos|wpe", re.IGNORECASE)
_ATTENTION = re.compile(r"att", re.IGNORECASE)
_ATTENTION_OUT = re.compile(r"(^|\.)(o_proj|out_proj|c_proj|wo|dense|proj|o|to_out|out)(\.0)?$")
_UP = re.compile(r"(^|\.)(c_fc|fc1|fc_1|fc_in|up_proj|w1|dense_h_to_4h|linear1|lin1|up|fc|wi)$")
_DOWN = re.compile(r"(^|\.)(c_proj|fc2|fc_2|fc_out|down_proj|w2|dense_4h_to_h|linear2|lin2|down|proj|wo)$")
_GATE = re.compile(r"(^|\.)(gate_proj|w3|gate|fc_gate|wi_1|gate_up_proj|c_gate|w12|v1)$")
_QK_NORM = re.compile(r"(^|[._])(q|k|qk|query|key)_?(layer)?_?(norm|ln)|(norm|ln)_?(q|k|query|key)$", re.IGNORECASE)
_SCALED_BRANCH = re.compile(
    r"layer_?scale|(^|\.)ls\d|gamma_\d|rezero|resid\w*_(weight|scale|lambda)|skip_", re.IGNORECASE
)


@dataclass(frozen=True)
class Block:
    """One layer; a part is None where it is not known which one it is."""

    name: str
    module: nn.Module
    attention_out: nn.Module | None
    up: nn.Module | None
    down: nn.Module | None
    is_gated: bool
    has_scaled_branches: bool

    def norms(self) -> Iterator[tuple[str, nn.Module]]:
        return ((name, each) for name, each in self.module.named_modules() if is_norm(each))

    def has_named_qk_norm(self) -> bool:
        return any(_QK_NORM.search(name) for name, _ in self.norms())


class Anatomy:
    def __init__(self, model: nn.Module) -> None:
        self.model = unwrapped(model)

    @cached_property
    def embeddings(self) -> dict[str, nn.Embedding]:
        return {name: each for name, each in self.model.named_modules() if isinstance(each, nn.Embedding)}

    @cached_property
    def token_embedding(self) -> nn.Embedding | None:
        """The largest that is none of positions."""
        tables = [each for name, each in self.embeddings.items() if not _POSITION.search(name.rpartition(".")[2])]
        return max(tables, key=lambda table: table.num_embeddings, default=None)

    @cached_property
    def blocks(self) -> list[Block]:
        """Of the longest list of modules of one type that have two matrices or more; empty where there is none."""
        best: tuple[str, list[tuple[str, nn.Module]]] = ("", [])
        for name, container in self.model.named_modules():
            layers = [(key, each) for key, each in container.named_children() if _is_layer(each)]
            alike = len({type(each) for _, each in layers}) == 1 and isinstance(
                container, (nn.ModuleList, nn.Sequential, nn.ModuleDict)
            )
            if alike and len(layers) > len(best[1]):
                best = (name, layers)
        return [_block(f"{best[0]}.{key}" if best[0] else key, layer) for key, layer in best[1]]

    @cached_property
    def head(self) -> nn.Module | None:
        """The matrix that makes logits of the vocabulary: the last of that width."""
        table = self.token_embedding
        wide = [each for _, each in matrices(self.model) if table is not None and width(each) == table.num_embeddings]
        return wide[-1] if wide else None


def unwrapped(model: nn.Module) -> nn.Module:
    """Without ``torch.compile`` and ``DistributedDataParallel``."""
    inner = getattr(model, "_orig_mod", model)
    inner = inner.module if isinstance(inner, nn.parallel.DistributedDataParallel) else inner
    return inner if isinstance(inner, nn.Module) else model


def is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not list(module.children())


def matrices(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """``Linear`` and the transposed ``Conv1D`` of GPT-2's implementation in transformers."""
    return (
        (name, each)
        for name, each in module.named_modules()
        if isinstance(each, nn.Linear) or (type(each).__name__ == "Conv1D" and hasattr(each, "nf"))
    )


def width(matrix: nn.Module) -> int:
    """Output features."""
    return int(matrix.out_features if isinstance(matrix, nn.Linear) else matrix.nf)  # type: ignore[arg-type]


def fan_in(matrix: nn.Module) -> int:
    return int(weight_of(matrix).numel() // width(matrix))


def weight_of(matrix: nn.Module) -> torch.Tensor:
    return matrix.weight  # type: ignore[return-value]


@torch.no_grad()
def sigma(matrix: nn.Module) -> float:
    """The root mean square of its weights."""
    weight = weight_of(matrix)
    return float(torch.linalg.vector_norm(weight.float())) / math.sqrt(weight.numel())


def _is_layer(module: nn.Module) -> bool:
    names = [name for name, each in module.named_modules() if isinstance(each, nn.MultiheadAttention)]
    return bool(names) or sum(1 for _ in matrices(module)) >= 2


def _block(name: str, module: nn.Module) -> Block:
    found = dict(matrices(module))
    attention = {key: each for key, each in found.items() if _ATTENTION.search(key)}
    rest = {key: each for key, each in found.items() if key not in attention}
    return Block(
        name,
        module,
        _only(attention, _ATTENTION_OUT),
        _only(rest, _UP),
        _only(rest, _DOWN),
        any(_GATE.search(key) for key in rest),
        any(_SCALED_BRANCH.search(key) for key, _ in module.named_parameters()),
    )


def _only(found: dict[str, nn.Module], pattern: re.Pattern[str]) -> nn.Module | None:
    """The one with such a name; None where there are several, as in a mixture of experts."""
    fits = [each for key, each in found.items() if pattern.search(key)]
    return fits[0] if len(fits) == 1 else None
