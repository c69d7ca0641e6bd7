"""Small parameters with the gradients a test wants, and ranks that are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from holter.producers.torch.clip import Clipper, ClipReport

SHAPES: tuple[tuple[int, ...], ...] = ((6, 4), (8,), (5, 2, 3, 3))
OutcomeT = TypeVar("OutcomeT")


def parameters(shapes: Sequence[tuple[int, ...]] = SHAPES, device: str = "cpu") -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in shapes]


def give(weights: Sequence[torch.nn.Parameter], step: int, scale: float = 1.0) -> None:
    """The gradients of a step: the same for the same step."""
    generator = torch.Generator().manual_seed(step)
    for weight in weights:
        weight.grad = scale * torch.randn(weight.shape, generator=generator)


def give_norms(weights: Sequence[torch.nn.Parameter], norms: Sequence[float]) -> None:
    for weight, norm in zip(weights, norms, strict=True):
        weight.grad = torch.zeros_like(weight)
        weight.grad.view(-1)[0] = norm


def norms_of(weights: Sequence[torch.nn.Parameter]) -> list[float]:
    return [float(weight.grad.norm()) for weight in weights if weight.grad is not None]


def run(clipper: Clipper, weights: Sequence[torch.nn.Parameter], scales: Sequence[float]) -> list[ClipReport]:
    """One applied step for every scale."""
    reports = []
    for step, scale in enumerate(scales):
        give(weights, step, scale)
        reports.append(clipper.clip(weights))
        clipper.commit(True)
    return reports


def feed(clipper: Clipper, norms: Sequence[float]) -> list[float]:
    """The norms let through, of a model that is one number."""
    weight = torch.nn.Parameter(torch.ones(1))
    let_through = []
    for norm in norms:
        give_norms([weight], [norm])
        clipper.clip([weight])
        clipper.commit(True)
        let_through += norms_of([weight])
    return let_through


class HostReads(TorchDispatchMode):
    """Counts what waits for a device: scalars read on the host, and results whose shape depends on values."""

    _WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique")

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in str(func) for name in self._WAITS):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


class FakeRanks:
    """Threads whose sums meet at a barrier, as those of processes do."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._barrier = threading.Barrier(number, timeout=20)
        self._given: list[torch.Tensor] = [torch.zeros(())] * number
        self.num_sums = 0

    def adder(self, rank: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def add_up(amount: torch.Tensor) -> torch.Tensor:
            self._given[rank] = amount.clone()
            self._barrier.wait()
            total = torch.stack(self._given).sum(0)
            self._barrier.wait()
            self.num_sums += rank == 0
            return total

        return add_up

    def run(self, work: Callable[[int], OutcomeT]) -> list[OutcomeT]:
        with ThreadPoolExecutor(self._number) as threads:
            return list(threads.map(work, range(self._number)))


def tensors_of(state: Any) -> Iterator[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from tensors_of(value)
