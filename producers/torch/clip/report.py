"""What a clipper says of one step."""

from __future__ import annotations

from typing import NamedTuple

import torch


class ClipReport(NamedTuple):
    """Scalars on the gradients' device; reading one on the host is what waits for it, so that is left to the caller."""

    norm_before: torch.Tensor
    """The L2 norm over all gradients as they came. Where it is not finite, nothing was clipped and nothing was learnt,
    and the step has to be skipped."""
    norm_after: torch.Tensor
    threshold: torch.Tensor
    """The largest norm let through; for rules per tensor or per unit, the largest ratio to what they compare with."""
    num_clipped: torch.Tensor
    """Of the rule's own pieces: the whole gradient, tensors, or units."""

    @property
    def is_finite(self) -> torch.Tensor:
        return torch.isfinite(self.norm_before)

    @property
    def is_clipped(self) -> torch.Tensor:
        return self.num_clipped > 0
