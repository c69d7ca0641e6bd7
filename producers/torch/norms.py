"""Norms of a step, as device scalars: nothing here waits for the device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from holter.producers.torch.device_values import host_value
from holter.schemas.bounds import UpdateNormSource

MAX_SAMPLE = 65_536
_MIN_SAMPLE = 8_192
_RUN_LENGTH = 256
_SAMPLE_SEED = 0x48
_NOTHING = bytearray()


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> torch.Tensor | None:
    """The L2 norm over all gradients as they are; None where there are none."""
    return norm_of([parameter.grad for parameter in parameters if parameter.grad is not None])


def norm_of(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    """The L2 norm over all elements; None where there are none."""
    return _total(torch._foreach_norm(tensors)) if tensors else None


class UpdateNorm:
    """‖θ − θ at the last call‖₂, weight decay and whatever else changed the weights in between included."""

    source: UpdateNormSource

    def measure(self) -> torch.Tensor | float:
        """The norm since the last :meth:`measure` or :meth:`restart`, to single precision."""
        raise NotImplementedError

    def restart(self) -> None:
        """Forgets what happened to the weights so far: after they were restored."""
        raise NotImplementedError


class FullUpdateNorm(UpdateNorm):
    """Over every element; costs a copy of the weights."""

    source: UpdateNormSource = "full"

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._weights = [parameter.detach() for parameter in parameters]
        self._before = [weight.clone() for weight in self._weights]

    def measure(self) -> torch.Tensor:
        torch._foreach_sub_(self._before, self._weights)
        norm = _total(torch._foreach_norm(self._before))
        self.restart()
        return norm

    def restart(self) -> None:
        torch._foreach_copy_(self._before, self._weights)


class SampledUpdateNorm(UpdateNorm):
    """Over a fixed random sample of at most 64k elements, scaled to all of them.

    The sample is made of runs of 256 neighbouring elements at random places of every large tensor, and of whole small
    tensors (biases, norms), each weighted by the elements that it stands for. Runs instead of single elements make
    it one gather of views instead of an indexed read for every tensor.
    """

    source: UpdateNormSource = "sampled"

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        pieces = _sample(parameters, random=torch.Generator().manual_seed(_SAMPLE_SEED))
        self._views = [view for view, _ in pieces]
        device = self._views[0].device
        weights = [torch.full((view.numel(),), math.sqrt(weight)) for view, weight in pieces]
        self._weights = torch.cat(weights).to(device)
        self._before = torch.cat(self._views).float()
        self._after = torch.empty_like(self._before)

    @property
    def num_elements(self) -> int:
        return self._before.numel()

    def measure(self) -> torch.Tensor | float:
        torch.cat(self._views, out=self._after)
        return self._norm_of_change()

    def restart(self) -> None:
        torch.cat(self._views, out=self._before)

    def _norm_of_change(self) -> torch.Tensor:
        """From ``before`` to ``after``, which is the next one's ``before``."""
        norm: torch.Tensor = torch.linalg.vector_norm(self._before.sub_(self._after).mul_(self._weights))
        self._before, self._after = self._after, self._before
        return norm


class HostSampledUpdateNorm(SampledUpdateNorm):
    """The same of float32 weights in host memory, whose bytes are joined without the work that torch or NumPy do for
    each of many views."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        super().__init__(parameters)
        arrays: list[Any] = [view.numpy() for view in self._views]
        self._places = [memoryview(array).cast("B") for array in arrays]

    def measure(self) -> float:
        self._after = torch.frombuffer(_NOTHING.join(self._places), dtype=torch.float32)
        return host_value(self._norm_of_change())


def make_update_norm(parameters: Sequence[torch.Tensor], source: UpdateNormSource) -> UpdateNorm | None:
    """None for ``none``, and for weights that lie on several devices or in layouts that cannot be viewed flat."""
    usable = [parameter for parameter in parameters if parameter.is_floating_point() and _flat(parameter) is not None]
    if source == "none" or not usable or len({parameter.device for parameter in usable}) > 1:
        return None
    if source == "full":
        return FullUpdateNorm(usable)
    is_on_host = all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in usable)
    return HostSampledUpdateNorm(usable) if is_on_host else SampledUpdateNorm(usable)


def _sample(parameters: Sequence[torch.Tensor], random: torch.Generator) -> list[tuple[torch.Tensor, float]]:
    """Flat views and how many elements each of theirs stands for."""
    flats = [flat for flat in map(_flat, parameters) if flat is not None]
    num_all = sum(flat.numel() for flat in flats)
    budget = min(MAX_SAMPLE, max(_MIN_SAMPLE, num_all // 64))
    small = [flat for flat in flats if flat.numel() < 2 * _RUN_LENGTH]
    large = [flat for flat in flats if flat.numel() >= 2 * _RUN_LENGTH]
    chosen, weight = _chosen(small, budget // 2, [flat.numel() for flat in small], random)
    pieces = [(flat, weight) for flat in chosen]
    num_small = sum(flat.numel() for flat in chosen)
    chosen, weight = _chosen(large, MAX_SAMPLE - num_small, [_RUN_LENGTH] * len(large), random)
    num_runs = max(len(chosen), (budget - num_small) // _RUN_LENGTH)
    num_chosen = sum(flat.numel() for flat in chosen)
    for flat in chosen:
        runs = _runs(flat, max(1, (num_runs - len(chosen)) * flat.numel() // num_chosen), random)
        pieces += [(view, weight * each) for view, each in runs]
    return pieces


def _chosen(
    flats: list[torch.Tensor], budget: int, costs: list[int], random: torch.Generator
) -> tuple[list[torch.Tensor], float]:
    """As many tensors as the budget allows, at random, and how many elements each of theirs stands for."""
    chosen: list[torch.Tensor] = []
    for index in torch.randperm(len(flats), generator=random).tolist():
        budget -= costs[index]
        if budget < 0:
            break
        chosen.append(flats[index])
    num_chosen = sum(flat.numel() for flat in chosen)
    return chosen, sum(flat.numel() for flat in flats) / num_chosen if num_chosen else 1.0


def _runs(flat: torch.Tensor, num_runs: int, random: torch.Generator) -> list[tuple[torch.Tensor, float]]:
    num_places = flat.numel() // _RUN_LENGTH
    num_runs = min(num_runs, num_places)
    places = torch.randperm(num_places, generator=random)[:num_runs].tolist()
    weight = flat.numel() / (num_runs * _RUN_LENGTH)
    return [(flat[place * _RUN_LENGTH :][:_RUN_LENGTH], weight) for place in places]


def _flat(parameter: torch.Tensor) -> torch.Tensor | None:
    """A flat view of the memory, in whatever order, or None."""
    weight = parameter.detach()
    if weight.numel() == 0 or weight.layout != torch.strided:
        return None
    if weight.is_contiguous():
        return weight.view(-1)
    dense = sorted(zip(weight.stride(), weight.shape, strict=True))
    expected = 1
    for stride, size in dense:
        if size > 1 and stride != expected:
            return None
        expected *= size
    return weight.as_strided((weight.numel(),), (1,))


def _total(norms: Sequence[torch.Tensor]) -> torch.Tensor:
    device = norms[0].device
    if any(norm.dtype != torch.float32 or norm.device != device for norm in norms):
        norms = [norm.to(device, torch.float32) for norm in norms]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(tuple(norms)))
    return total
