"""Skip-step: a step that the recent ones would not believe is not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from holter.producers.torch.clip.clipper import Origin
from holter.producers.torch.clip.norms import global_norm
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.optim.outliers import Outliers
from holter.producers.torch.optim.wrapper import Wrapper
from holter.producers.torch.reflex import make_reflex


class SkipStep(Wrapper):
    """Leaves out a step whose loss or gradient norm is more than ``max_score`` standard deviations from the mean of
    the last ``window`` ones.

    Source: OLMo-core's ``SkipStepOptimizer`` (σ 6, window 128, at least half a window of values, both sides, the step
    itself not in its window). Three things are done otherwise. A step is left out by selection, never by multiplying
    the update with 0, which makes NaN of what is not finite. What was left out does not enter the window, where it
    would widen the deviation and hide the next one; so that a lasting change is not left out for ever, the
    ``max_in_a_row``-th suspicious step in a row is taken and starts the window anew. And values that are not finite
    are left out always, enter no statistic and do not count into that row.

    The loss is known by :meth:`observe`, or from a closure; the gradient norm by :meth:`observe`, where it was
    measured already, before clipping, or is measured here, over ``ranks``. A ``Guard`` tells it by itself, with
    several ranks the norm alone: every one has to be told the same loss, or they decide differently.
    On a device nothing is waited for: the decision, weights and state stay there.
    """

    origin: ClassVar[Origin] = "report-variant"
    key = "skip_step"

    def __init__(
        self,
        base: torch.optim.Optimizer,
        max_score: float = 6.0,
        window: int = 128,
        max_in_a_row: int = 16,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(base)
        self._ranks = ranks or Ranks()
        device = self.param_groups[0]["params"][0].device
        self._reflex = make_reflex(base, enabled=True)
        self._outliers = Outliers(("loss", "norm"), max_score, window, max_in_a_row, device)
        self._observed: dict[str, torch.Tensor] = {}
        self.applied: bool | torch.Tensor = True
        """Whether the last step was taken: a bool, or a device flag not yet known."""

    @property
    def num_skipped(self) -> torch.Tensor:
        """Steps left out as outliers, a device scalar; those that were not finite are in ``num_nonfinite``."""
        return self._outliers.num_skipped

    @property
    def num_nonfinite(self) -> torch.Tensor:
        return self._outliers.num_nonfinite

    def observe(self, loss: torch.Tensor | None = None, norm: torch.Tensor | None = None) -> None:
        """Values of the coming step; of several losses (micro-batches) give the mean."""
        for name, value in (("loss", loss), ("norm", norm)):
            if value is not None:
                self._observed[name] = value.detach()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            self.observe(loss if isinstance(loss, torch.Tensor) else torch.tensor(float(loss)))
        self._decide_and_step()
        return loss

    @torch.no_grad()
    def _decide_and_step(self) -> None:
        observed, self._observed = self._observed, {}
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        if all(parameter.grad is None for parameter in parameters):
            return
        if "norm" not in observed:
            observed["norm"] = global_norm(parameters, self._ranks)
        norm = observed["norm"]
        keep = self._outliers.judge(observed, torch.isfinite(norm))
        self._outliers.learn(keep)
        # The reflex leaves out what has no finite norm, in the way that suits the optimizer and the device.
        self.applied = self._reflex.take(self.base, torch.where(keep, norm, torch.nan))

    def _own_state(self) -> dict[str, Any]:
        return self._outliers.state()

    def _load_own_state(self, state: dict[str, Any]) -> None:
        self._outliers.load(state)
