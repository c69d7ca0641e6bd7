"""One pass of a few tokens: how large the residual stream is at every block, and what blocks do to it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from holter.producers.torch.preflight.anatomy import Anatomy, Block, fan_in, is_norm, sigma, width
from holter.producers.torch.preflight.attention_watch import AttentionWatch
from holter.producers.torch.preflight.jacobian import jacobian_norm
from holter.producers.torch.preflight.quietly import quietly, reason

_NUM_TOKENS = 16
_MOST_JACOBIANS = 3
_ACTIVATION_GAIN = 1.13
"""The largest slope of GELU; ReLU and SiLU have less."""


class CannotTell(Exception):
    """Why a check says nothing."""


@dataclass
class Layer:
    """What was measured of a block. σ_x are the smallest over the tokens of the standard deviation over the features.

    ``bound`` is that of :func:`layer_bound`, ``jacobian`` the measured ‖∂y/∂x‖₂; NaN where they are not known.
    """

    name: str
    sigma_x: float
    sigma_x_ffn: float = math.nan
    is_pre_norm: bool = False
    outputs_are_normed: bool = False
    bound: float = math.nan
    jacobian: float = math.nan
    gain: float = field(default=1.0, repr=False)


@dataclass(frozen=True)
class Probe:
    layers: list[Layer]
    attention: AttentionWatch
    largest_activation: float


def probe(anatomy: Anatomy, batch: Any) -> Probe:
    """Raises :class:`CannotTell` where the model cannot be called with token ids alone."""
    if anatomy.token_embedding is None:
        raise CannotTell("no token embedding was found")
    if not anatomy.blocks:
        raise CannotTell("no list of layers was found")
    recorders = [_Recorder(block) for block in anatomy.blocks]
    with quietly(anatomy.model), ExitStack() as hooks:
        for recorder in recorders:
            recorder.attach(hooks)
        attention = hooks.enter_context(AttentionWatch())
        try:
            anatomy.model(token_ids(anatomy.token_embedding, batch), **_without_cache(anatomy.model))
        except Exception as error:  # whatever a stranger's forward raises
            raise CannotTell(f"calling the model with {_NUM_TOKENS} token ids: {reason(error)}") from error
    if any(recorder.layer is None for recorder in recorders):
        raise CannotTell("the forward pass did not call every layer with a tensor")
    with quietly(anatomy.model):
        for index in _spread(len(recorders)):
            recorders[index].measure_jacobian()
    layers = [recorder.layer for recorder in recorders if recorder.layer is not None]
    return Probe(layers, attention, max(recorder.largest for recorder in recorders))


def token_ids(table: nn.Embedding, batch: Any) -> torch.Tensor:
    """Shape (1, 16 at most): the first ids of a batch that has any, else random ones."""
    for tensor in _tensors(batch):
        is_ids = tensor.dim() == 2 and not tensor.is_floating_point() and tensor.dtype != torch.bool
        if is_ids and int(tensor.min()) >= 0 and int(tensor.max()) < table.num_embeddings:
            return tensor[:1, :_NUM_TOKENS].to(table.weight.device)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(table.num_embeddings, (1, _NUM_TOKENS), generator=generator).to(table.weight.device)


def layer_bound(block: Block, layer: Layer, attention_gain: float) -> float:
    """(1 + σ₁ σ₂ C_ffn / σ_x′)(1 + σ_O C_attn / σ_x) of Spike No More (2312.16903), NaN where a part is not known.

    C_ffn = (√d + √d_ffn)² and C_attn = 2 √d ‖J^Z‖; ``attention_gain`` is ‖J^Z‖. The paper's activation is ReLU and
    its norms have no gain: here are the largest slope of GELU, and the norm's largest weight.
    """
    if block.up is None or block.down is None or block.attention_out is None or block.is_gated:
        return math.nan
    model, inner = width(block.down), fan_in(block.down)
    ffn = _ACTIVATION_GAIN * sigma(block.up) * sigma(block.down) * (math.sqrt(model) + math.sqrt(inner)) ** 2
    attention = sigma(block.attention_out) * (math.sqrt(model) + math.sqrt(fan_in(block.attention_out)))
    gain = layer.gain
    return (1 + gain * ffn / layer.sigma_x_ffn) * (1 + gain * attention * attention_gain / layer.sigma_x)


class _Recorder:
    """Follows one block through the pass. Tensors are held, so that one is told from another by its identity."""

    def __init__(self, block: Block) -> None:
        self.layer: Layer | None = None
        self.largest = 0.0
        self._block = block
        self._entry: torch.Tensor | None = None
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._norms: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []
        self._branch_outputs: list[torch.Tensor] = []

    def attach(self, hooks: ExitStack) -> None:
        block = self._block
        handles = [
            block.module.register_forward_pre_hook(self._enter, with_kwargs=True),
            block.module.register_forward_hook(self._leave),
            *(norm.register_forward_hook(self._see_norm) for _, norm in block.norms()),
        ]
        handles += [
            matrix.register_forward_hook(lambda _, __, output: self._branch_outputs.append(output))
            for matrix in (block.attention_out, block.down)
            if matrix is not None
        ]
        for handle in handles:
            hooks.callback(handle.remove)

    def measure_jacobian(self) -> None:
        """Runs the block alone, on the input it had."""
        layer = self.layer
        if layer is None or self._entry is None:
            return
        entry = self._entry.detach().requires_grad_()
        args, kwargs = self._arguments
        args = tuple(entry if each is self._entry else each for each in args)
        kwargs = {name: entry if each is self._entry else each for name, each in kwargs.items()}
        try:
            with _Captured(self._block) as captured:
                output = first_tensor(self._block.module(*args, **kwargs))
            layer.jacobian = jacobian_norm(output, entry)
            if layer.is_pre_norm and captured.heads is not None and captured.normed is not None:
                gain = jacobian_norm(captured.heads, captured.normed)
                layer.bound = layer_bound(self._block, layer, gain)
        except Exception:  # it may not run alone, or not be differentiable twice: then it is not known
            return

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [each for each in (*args, *kwargs.values()) if _is_stream(each)]
        if tensors and self._entry is None:
            self._entry, self._arguments = tensors[0], (args, kwargs)

    def _see_norm(self, norm: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if args and _is_stream(args[0]):
            self._norms.append((norm, args[0], output))

    def _leave(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self._entry is None or self.layer is not None:
            return
        stream = [norm for norm in self._norms if norm[1].shape == self._entry.shape]
        layer = self.layer = Layer(self._block.name, _spread_of(self._entry))
        layer.is_pre_norm = any(entry is self._entry for _, entry, _ in stream)
        layer.outputs_are_normed = any(entry is branch for _, entry, _ in stream for branch in self._branch_outputs)
        layer.sigma_x_ffn = _spread_of(stream[-1][1]) if len(stream) > 1 else layer.sigma_x
        layer.gain = max((_largest_gain(norm) for norm, _, _ in stream), default=1.0)
        made = first_tensor(output)
        self.largest = float(torch.stack([each.detach().abs().max().float() for each in (self._entry, made)]).max())
        self._norms.clear()
        self._branch_outputs.clear()


class _Captured:
    """The normed input of a block's attention, and what its heads give to the output matrix."""

    def __init__(self, block: Block) -> None:
        self.normed: torch.Tensor | None = None
        self.heads: torch.Tensor | None = None
        self._block = block
        self._handles: list[Any] = []

    def __enter__(self) -> _Captured:
        norm = next((each for each in self._block.module.modules() if is_norm(each)), None)
        if norm is not None and self._block.attention_out is not None:
            self._handles = [
                norm.register_forward_hook(self._see_norm),
                self._block.attention_out.register_forward_pre_hook(self._see_heads),
            ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _see_norm(self, _: nn.Module, args: Any, output: torch.Tensor) -> None:
        self.normed = output

    def _see_heads(self, _: nn.Module, args: Any) -> None:
        self.heads = args[0]


def _without_cache(model: nn.Module) -> dict[str, bool]:
    """A block that is run again must not find its own keys in a cache."""
    return {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}


def first_tensor(output: Any) -> torch.Tensor:
    """Of a tensor, or of a tuple that begins with one."""
    tensor: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
    return tensor


def _tensors(batch: Any) -> list[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        return [batch]
    values: Callable[[], Any] | None = getattr(batch, "values", None)
    parts = values() if values is not None else batch if isinstance(batch, (tuple, list)) else ()
    return [each for each in parts if isinstance(each, torch.Tensor)]


def _is_stream(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() == 3


@torch.no_grad()
def _spread_of(stream: torch.Tensor) -> float:
    return float(stream.detach().float().std(-1, correction=0).min())


@torch.no_grad()
def _largest_gain(norm: nn.Module) -> float:
    weight = getattr(norm, "weight", None)
    return 1.0 if weight is None else float(weight.abs().max())


def _spread(count: int) -> list[int]:
    """The first, the middle and the last."""
    return sorted({0, count // 2, count - 1})[:_MOST_JACOBIANS]
