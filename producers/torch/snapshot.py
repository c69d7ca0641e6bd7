"""A copy of nested state in host memory that a background thread may take its time with."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch

from holter.producers.torch.sharding import is_sharded, local_part, packed

IMMUTABLE = frozenset({int, float, str, bool, bytes, type(None)})
_ALIGNMENT = 64
"""In elements: every buffer begins where vector instructions like it."""


class Snapshots:
    """Copies tensors into buffers that it keeps for the next time, from CUDA asynchronously into pinned memory.

    The buffers are views of few pieces of memory, one for each entry of the state and type of number: a file takes
    these in a few calls, where many tensors take many, for each of which a background thread needs the interpreter.
    The tree that :meth:`take` returns is overwritten by the next call.
    """

    def __init__(self, pins: bool = True) -> None:
        """``pins``: into pinned memory from CUDA; without it the copy is plain memory, for one that is used once."""
        self._pins = pins
        self._buffers: list[torch.Tensor] = []
        """One for each tensor of the state, in its order."""
        self._copied: list[torch.cuda.Event] = []

    @torch.no_grad()
    def take(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Host copies in the same shape, of sharded tensors their parts :func:`~.sharding.packed`. From CUDA they
        are complete only after :meth:`wait`."""
        sources: list[torch.Tensor] = []
        tree = {key: self._walk(child, sources) for key, child in state.items()}
        if not _fit(self._buffers, sources):
            self._buffers = []
            self._buffers = self._made_for(state)
            sources.clear()
            tree = {key: self._walk(child, sources) for key, child in state.items()}
        if sources:
            torch._foreach_copy_(self._buffers, sources, non_blocking=True)
        self._copied = [_recorded(device) for device in {source.device for source in sources} if device.type == "cuda"]
        return tree

    def wait(self) -> None:
        for event in self._copied:
            event.synchronize()

    def _made_for(self, state: Mapping[str, Any]) -> list[torch.Tensor]:
        buffers: list[torch.Tensor] = []
        for child in state.values():
            sources: list[torch.Tensor] = []
            self._walk(child, sources)
            buffers += _buffers(sources, self._pins and any(source.device.type == "cuda" for source in sources))
        return buffers

    def _walk(self, value: Any, sources: list[torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            return self._walk(packed(value), sources) if is_sharded(value) else self._copy_of(value, sources)
        if isinstance(value, Mapping):
            return {key: self._walk(child, sources) for key, child in value.items()}
        if type(value) in (list, tuple):
            if set(map(type, value)) <= IMMUTABLE:  # as the hundreds of numbers of a random state
                return type(value)(value)
            return type(value)(self._walk(child, sources) for child in value)
        if type(value) in IMMUTABLE:
            return value
        return copy.deepcopy(value)

    def _copy_of(self, source: torch.Tensor, sources: list[torch.Tensor]) -> torch.Tensor:
        """Where it will be copied to; while there is no place for it, itself."""
        if source.layout != torch.strided or source.is_quantized:
            return source.detach().to("cpu", copy=True)
        at = len(sources)
        sources.append(source)
        return self._buffers[at] if at < len(self._buffers) else source


def num_bytes_of(state: Any) -> int:
    """Of the tensors in it."""
    if isinstance(state, torch.Tensor):
        return local_part(state).numel() * state.element_size()
    if isinstance(state, Mapping):
        return sum(num_bytes_of(child) for child in state.values())
    return sum(num_bytes_of(child) for child in state) if type(state) in (list, tuple) else 0


def _fit(buffers: list[torch.Tensor], sources: list[torch.Tensor]) -> bool:
    return len(buffers) == len(sources) and all(
        buffer.dtype == source.dtype and buffer.is_same_size(source)
        for buffer, source in zip(buffers, sources, strict=True)
    )


def _buffers(sources: list[torch.Tensor], pin_memory: bool) -> list[torch.Tensor]:
    starts: list[int] = []
    num_elements: dict[torch.dtype, int] = {}
    for source in sources:
        starts.append(start := num_elements.get(source.dtype, 0))
        num_elements[source.dtype] = start + math.ceil(source.numel() / _ALIGNMENT) * _ALIGNMENT
    pieces = {dtype: torch.empty(num, dtype=dtype, pin_memory=pin_memory) for dtype, num in num_elements.items()}
    return [
        pieces[source.dtype][start:][: source.numel()].view(source.shape)
        for source, start in zip(sources, starts, strict=True)
    ]


def _recorded(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event
