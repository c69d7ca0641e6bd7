"""Whether non-finite gradients come from the weights or from the data: after one the weights are looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from holter.producers.torch.norms import norm_of
from holter.producers.torch.sharding import local_part


class WeightCheck:
    """Asks for the weights' norm at the step after a gradient norm that was not finite came to the host.

    A weight that is not a number, infinite, or so large that its square overflows single precision makes it infinite
    or NaN; a batch that is not finite leaves it as it was. It is of this rank's parts, without a word to the others;
    weights that an engine keeps elsewhere are not looked at.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = [weight for weight in parameters if local_part(weight).numel()]
        self._is_wanted = False

    def arrived(self, gradient_norm: float | None) -> None:
        self._is_wanted = gradient_norm is not None and not math.isfinite(gradient_norm)

    def measure(self) -> torch.Tensor | None:
        """The norm, on its device; None where nobody asked, or there is nothing to look at."""
        return norm_of([local_part(weight).detach() for weight in self._parameters]) if self._is_wanted else None
