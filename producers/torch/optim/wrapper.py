"""An optimizer around another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_SKIP_FLAGS = ("grad_scale", "found_inf")
"""What a gradient scaler, or who else skips steps on the device, sets on an optimizer with fused kernels."""


class Wrapper(torch.optim.Optimizer):
    """Shares the parameter groups and the state of ``base``, so that schedulers, gradient scalers and checkpoints see
    one optimizer. What the wrapper remembers itself goes into the same ``state_dict`` under its own key.
    """

    key: str

    def __init__(self, base: torch.optim.Optimizer) -> None:
        self.base = base
        super().__init__(base.param_groups, base.defaults)
        self._share()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if all(param_group is not known for known in self.base.param_groups):  # they are, while this is being made
            self.base.add_param_group(param_group)
            self._share()

    def state_dict(self) -> dict[str, Any]:
        return {**self.base.state_dict(), self.key: self._own_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Also takes the state of the base optimizer alone: the wrapper then starts anew."""
        own = state_dict.get(self.key)
        self.base.load_state_dict({name: value for name, value in state_dict.items() if name != self.key})
        self._share()
        if own is not None:
            self._load_own_state(own)

    def _own_state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _load_own_state(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    def _share(self) -> None:
        self.param_groups, self.state = self.base.param_groups, self.base.state

    @contextmanager
    def _forwarded_flags(self) -> Iterator[None]:
        """Fused kernels read the flags from the optimizer that launches them."""
        flags = {name: getattr(self, name) for name in _SKIP_FLAGS if hasattr(self, name)}
        for name, value in flags.items():
            setattr(self.base, name, value)
        try:
            yield
        finally:
            for name in flags:
                delattr(self.base, name)
