"""Lets code that insists on CUDA run on a CPU, for a try: only for what it makes and asserts in Python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _CudaAsCpu(TorchFunctionMode):
    """Makes on the CPU what is asked for on CUDA, and tells its types as CUDA's."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        asked = dict(kwargs or {})
        if "cuda" in str(asked.get("device")):
            asked["device"] = "cpu"
        returned = function(*args, **asked)
        return returned.replace("torch.", "torch.cuda.") if isinstance(returned, str) else returned


def cuda_as_cpu() -> AbstractContextManager[object]:
    """Does nothing where there is CUDA."""
    return nullcontext() if torch.cuda.is_available() else _CudaAsCpu()
