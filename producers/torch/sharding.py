"""Tensors of which every rank holds a part (``DTensor``, as FSDP2 makes them of a model's parameters)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from holter.producers.torch.mismatch import Mismatch

_REPLICATED = -1


def is_sharded(value: Any) -> bool:
    """Whether it is a part of a tensor that lies on several ranks."""
    if type(value) is torch.Tensor or type(value) is torch.nn.Parameter:  # so mostly, and quicker told
        return False
    tensors = sys.modules.get("torch.distributed.tensor")  # there is none before somebody imported it
    return tensors is not None and isinstance(value, tensors.DTensor)


@torch.no_grad()
def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part, in the memory of the whole; a plain tensor as it is."""
    part: torch.Tensor = tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return part


def whole_norm(norm: torch.Tensor) -> torch.Tensor:
    """An L2 norm put together on every rank, each of which has to call it; a plain tensor as it is.

    As ``full_tensor`` puts together what ``clip_grad_norm_`` returns, at a fifth of its time on the training thread.
    """
    if not is_sharded(norm):
        return norm
    kinds: Any = norm.placements  # type: ignore[attr-defined]
    if not all(each.is_replicate() or getattr(each, "norm_type", None) == 2 for each in kinds):
        complete: torch.Tensor = norm.detach().full_tensor()  # type: ignore[attr-defined]
        return complete
    total = local_part(norm)
    with torch.no_grad():
        for group in _groups(norm.device_mesh, kinds):  # type: ignore[attr-defined]
            total = _added_up(total.square(), group).sqrt()
    return total


@dataclass(frozen=True)
class Part:
    """Parameters that are spread over the ranks in one way; over ``groups`` the sums of their elements add up."""

    parameters: list[torch.nn.Parameter]
    groups: tuple[distributed.ProcessGroup, ...] = ()

    def add_up(self, amount: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks; on a device nobody waits for it."""
        for group in self.groups:
            _added_up(amount, group)
        return amount


def parts_of(parameters: Sequence[torch.nn.Parameter]) -> list[Part]:
    """The same parts in the same order on every rank."""
    found: dict[Any, Part] = {}
    for parameter in parameters:
        key = (parameter.device_mesh, tuple(parameter.placements)) if is_sharded(parameter) else None  # type: ignore[attr-defined]
        if key not in found:
            found[key] = Part([], () if key is None else _groups(*key))
        found[key].parameters.append(parameter)
    return list(found.values())


def can_pack(tensors: Iterable[Any]) -> bool:
    """Whether :func:`packed` knows how these are spread."""
    return all(_dimensions(tensor) is not None for tensor in tensors if is_sharded(tensor))


def packed(tensor: torch.Tensor) -> dict[str, Any]:
    """Plain values instead of a sharded tensor; its ``part`` is the live one, not a copy."""
    return {
        "part": local_part(tensor),
        "dimensions": _dimensions(tensor),
        "mesh": list(tensor.device_mesh.shape),  # type: ignore[attr-defined]
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
    }


def is_packed(value: Any) -> bool:
    return isinstance(value, dict) and "part" in value and "dimensions" in value


def unpacked(value: Any, like: torch.Tensor) -> Any:
    """What :func:`packed` was given, on the ranks that ``like`` lies on, and any other value as it is.

    Raises as :func:`check_fits` does.
    """
    check_fits(value, like)
    if not is_packed(value):
        return value
    from torch.distributed.tensor import DTensor, Replicate, Shard

    placements = [Replicate() if at == _REPLICATED else Shard(at) for at in value["dimensions"]]
    shape, stride = torch.Size(value["shape"]), tuple(value["stride"])
    part = value["part"].to(local_part(like).device)
    mesh = like.device_mesh  # type: ignore[attr-defined]
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=shape, stride=stride)


def check_fits(value: Any, like: torch.Tensor) -> None:
    """Raises :class:`Mismatch` where a stored value was spread over ranks in another way than the live tensor."""
    if is_packed(value) and (not is_sharded(like) or value["mesh"] != list(like.device_mesh.shape)):  # type: ignore[attr-defined]
        raise Mismatch("the checkpoint's tensors are spread over the ranks in another way")


def is_flat_sharded(model: torch.nn.Module) -> bool:
    """Whether it is FSDP1's, whose parts are pieces of one flat tensor."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and any(isinstance(each, fsdp.FullyShardedDataParallel) for each in model.modules())


def _added_up(amount: torch.Tensor, group: distributed.ProcessGroup) -> torch.Tensor:
    """In place, without what ``all_reduce`` does around it on the training thread."""
    group.allreduce([amount]).wait()
    return amount


def _groups(mesh: Any, placements: Sequence[Any]) -> tuple[distributed.ProcessGroup, ...]:
    return tuple(mesh.get_group(at) for at, placement in enumerate(placements) if not placement.is_replicate())


def _dimensions(tensor: Any) -> list[int] | None:
    """For every dimension of the mesh, which one of the tensor's it splits; None for ways other than that."""
    from torch.distributed.tensor import Replicate, Shard

    if not all(type(placement) in (Replicate, Shard) for placement in tensor.placements):
        return None
    return [_REPLICATED if type(each) is Replicate else int(each.dim) for each in tensor.placements]
