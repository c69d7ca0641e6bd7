"""A copy of nested state in host memory that a background thread may take its time with."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from holter.producers.torch.sharding import is_packed

Path = tuple[Any, ...]
IMMUTABLE = frozenset({int, float, str, bool, bytes, type(None)})


class Snapshots:
    """Copies tensors into buffers that it keeps for the next time, from CUDA asynchronously into pinned memory.

    The tree that :meth:`take` returns is overwritten by the next call.
    """

    def __init__(self, pins: bool = True) -> None:
        """``pins``: into pinned memory from CUDA; without it the copy is plain memory, for one that is used once."""
        self._pins = pins
        self._buffers: dict[Path, torch.Tensor] = {}
        self._copied: list[torch.cuda.Event] = []

    @torch.no_grad()
    def take(self, state: Any) -> Any:
        """Host copies in the same shape. From CUDA they are complete only after :meth:`wait`."""
        sources: list[torch.Tensor] = []
        targets: list[torch.Tensor] = []
        tree = self._walk((), state, sources, targets)
        if targets:
            torch._foreach_copy_(targets, sources, non_blocking=True)
        self._copied = [_recorded(device) for device in {source.device for source in sources} if device.type == "cuda"]
        return tree

    def wait(self) -> None:
        for event in self._copied:
            event.synchronize()

    def _walk(self, path: Path, value: Any, sources: list[torch.Tensor], targets: list[torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            return self._copy_of(path, value.detach(), sources, targets)
        if is_packed(value):  # nothing but the part changes
            return {**value, "part": self._copy_of(path, value["part"], sources, targets)}
        if isinstance(value, Mapping):
            return {key: self._walk((*path, key), child, sources, targets) for key, child in value.items()}
        if type(value) in (list, tuple):
            if set(map(type, value)) <= IMMUTABLE:  # as the hundreds of numbers of a random state
                return type(value)(value)
            return type(value)(self._walk((*path, at), child, sources, targets) for at, child in enumerate(value))
        if type(value) in IMMUTABLE:
            return value
        return copy.deepcopy(value)

    def _copy_of(
        self, path: Path, source: torch.Tensor, sources: list[torch.Tensor], targets: list[torch.Tensor]
    ) -> torch.Tensor:
        if source.layout != torch.strided:
            return source.to("cpu", copy=True)
        buffer = self._buffers.get(path)
        if buffer is None or buffer.shape != source.shape or buffer.dtype != source.dtype:
            pin = self._pins and source.device.type == "cuda"
            buffer = torch.empty(source.shape, dtype=source.dtype, pin_memory=pin)
            self._buffers[path] = buffer
        sources.append(source)
        targets.append(buffer)
        return buffer


def num_bytes_of(state: Any) -> int:
    """Of the tensors in it."""
    if isinstance(state, torch.Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, Mapping):
        return sum(num_bytes_of(child) for child in state.values())
    return sum(num_bytes_of(child) for child in state) if type(state) in (list, tuple) else 0


def _recorded(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event
