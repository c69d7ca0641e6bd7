"""What all clippers have in common: a state that only applied steps change, and a factor that an action may set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch

from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.clip.report import ClipReport
from holter.producers.torch.ramped_factor import RampedFactor

Origin = Literal["paper", "report-variant"]
"""``paper``: the rule as its authors publish it; ``report-variant``: a rule of this project's own reading."""
State = dict[str, torch.Tensor]
Applied = bool | torch.Tensor
"""A device flag where the host does not know yet."""


class Clipper(ABC):
    """Bounds the gradients of a step, between their unscaling and the optimizer.

    A step is ``report = clip(parameters)``, then the optimizer's step unless ``report.is_finite`` is false, then
    ``commit(applied)``. What a step taught takes effect only with :meth:`commit`, so a skipped step and a
    non-finite gradient leave no trace. ``parameters`` are the same in the same order at every call; one without a
    gradient is passed over. Nothing waits for the device.
    """

    name: ClassVar[str]
    origin: ClassVar[Origin] = "paper"

    def __init__(self, ranks: Ranks | None = None) -> None:
        self._ranks = ranks or Ranks()
        self._factor = RampedFactor()
        self._state: State = {}
        self._pending: State = {}
        self._is_placed = False

    @property
    def factor(self) -> float:
        """What the threshold is multiplied by at present: 1, but for an action."""
        return self._factor.value

    @abstractmethod
    def clip(self, parameters: Sequence[torch.nn.Parameter]) -> ClipReport:
        """Scales the gradients in place."""

    @abstractmethod
    def _fresh(self, norms: torch.Tensor) -> State:
        """The state before the first step, for norms of this shape and device."""

    @torch.no_grad()
    def commit(self, applied: Applied = True) -> None:
        """Ends the step: its norms are learnt where it was applied."""
        pending, self._pending = self._pending, {}
        self._factor.advance()
        if isinstance(applied, torch.Tensor):
            self._state = _selected(applied, pending, self._state) if pending else self._state
        elif applied and pending:
            self._state = pending

    def clip_adjust(self, factor: float, ramp_steps: int = 0) -> None:
        """Multiplies the threshold, and not what is learnt: a rule that follows the norms it lets through would
        else tighten itself further at every step. With ``ramp_steps`` it climbs back to 1 by itself.

        Raises:
            ValueError: the factor is outside [.1, 1].
        """
        self._factor.set(factor, ramp_steps)

    def state_dict(self) -> dict[str, Any]:
        """References; a later step replaces the tensors and never writes into them."""
        return {"name": self.name, "state": dict(self._state), "factor": self._factor.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises :class:`ValueError` when it is another clipper's."""
        if state["name"] != self.name:
            raise ValueError(f"this is the state of the clipper {state['name']!r}, not of {self.name!r}")
        self._state = {name: value.clone() for name, value in state["state"].items()}
        self._pending, self._is_placed = {}, False
        self._factor.load(state["factor"])

    def _state_for(self, norms: torch.Tensor) -> State:
        """The committed state, where ``norms`` are.

        Raises:
            ValueError: it was saved with another number of parameters or another window.
        """
        if not self._is_placed:
            fresh = self._fresh(norms)
            if self._state and _shapes(self._state) != _shapes(fresh):
                raise ValueError(f"the state of the clipper {self.name!r} is of other parameters or another window")
            self._state = {name: value.to(norms.device) for name, value in (self._state or fresh).items()}
            self._is_placed = True
        return self._state

    def _learn(self, learnt: State, state: State, norm: torch.Tensor) -> None:
        """A gradient that is zero everywhere says as little as one that is not finite."""
        self._pending = _selected(torch.isfinite(norm) & (norm > 0), learnt, state)


def _selected(flag: torch.Tensor, new: State, old: State) -> State:
    return {name: torch.where(flag, new[name], value) for name, value in old.items()}


def _shapes(state: State) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}
