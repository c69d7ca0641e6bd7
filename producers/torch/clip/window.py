"""The newest values of a series in a ring on the device, and their order statistics."""

from __future__ import annotations

import torch


def appended(ring: torch.Tensor, num_seen: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A ring with ``value`` in the place of the oldest; ``num_seen`` counts the values before it.

    >>> ring = torch.tensor([1.0, 2.0, 3.0])
    >>> appended(ring, torch.tensor(4), torch.tensor(5.0))
    tensor([1., 5., 3.])
    """
    places = torch.arange(ring.numel(), device=ring.device)
    return torch.where(places == num_seen % ring.numel(), value, ring)


def quantile(ring: torch.Tensor, num_seen: torch.Tensor, share: float) -> torch.Tensor:
    """Of the values in the ring, linear between neighbours; infinite while there are none.

    >>> quantile(torch.tensor([4.0, 1.0, 2.0, 0.0]), torch.tensor(3), 0.5)
    tensor(2.)
    """
    places = torch.arange(ring.numel(), device=ring.device)
    ordered = torch.where(places < num_seen, ring, torch.inf).sort().values
    place = share * (num_seen.clamp(max=ring.numel()) - 1).clamp(min=0).to(torch.float32)
    low, high = _at(ordered, place.floor()), _at(ordered, place.ceil())
    return torch.where(low == high, low, low + (high - low) * place.frac())


def median_deviation(ring: torch.Tensor, num_seen: torch.Tensor) -> torch.Tensor:
    """The median of the distances from the median (MAD), not scaled.

    >>> median_deviation(torch.tensor([1.0, 2.0, 4.0, 9.0, 0.0]), torch.tensor(4))
    tensor(1.5000)
    """
    return quantile((ring - quantile(ring, num_seen, 0.5)).abs(), num_seen, 0.5)


def _at(ordered: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    # Plain indexing with a scalar tensor would read it on the host.
    return ordered.index_select(0, place.to(torch.int64).view(1)).view(())
