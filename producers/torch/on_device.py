"""What happens inside the gradients, tensor by tensor, computed where they are and read without waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from holter.producers.torch.clip.norms import local_gradient, local_norms
from holter.producers.torch.device_values import DeviceValues
from holter.producers.torch.point_test import PointSettings, PointTest


@dataclass(frozen=True)
class TensorReadings:
    """Of one step, in the order of ``names``.

    Attributes:
        norms: L2, 0 where a tensor has no gradient; infinite or NaN where the gradient is.
        num_nonfinite: elements that are NaN or infinite, as float32.
        scores: of :class:`PointTest`.
        is_far: whether the norm is far above the tensor's own.
    """

    step: int
    names: tuple[str, ...]
    norms: tuple[float, ...]
    num_nonfinite: tuple[float, ...]
    scores: tuple[float, ...]
    is_far: tuple[bool, ...]

    def far(self) -> dict[str, float]:
        """The scores of the tensors that are far out, the highest first."""
        found = [(name, score) for name, score, far in zip(self.names, self.scores, self.is_far, strict=True) if far]
        return dict(sorted(found, key=lambda pair: -pair[1]))

    def nonfinite(self) -> dict[str, int]:
        """How many elements of which tensors are no numbers."""
        return {name: int(count) for name, count in zip(self.names, self.num_nonfinite, strict=True) if count}

    def metrics(self) -> dict[str, float]:
        """In three numbers, for ``run.log``: a series a tensor would be thousands."""
        return {
            "gradient/num_nonfinite": sum(self.num_nonfinite),
            "gradient/worst_score": max(self.scores),
            "gradient/num_far": float(sum(self.is_far)),
        }


class GradientWatch:
    """Norms, non-finite elements and the point test of every gradient; of a split one, of this rank's part.

    The readings of a step travel by one asynchronous copy and are delivered a step or two later, on the CPU at once.
    Counting costs one more pass over the gradients, and a copy of them while it lasts.

    No ``Guard`` starts one: most runs do not need it at its price. Beside a guard without a gradient scaler, measure
    between ``guard.backward`` and ``guard.step``, and deliver by ``lambda readings: run.log(readings.metrics())``,
    which joins the step in progress: on a device the one or two steps after the measured one.

    >>> weight = torch.nn.Parameter(torch.zeros(3))
    >>> watch = GradientWatch([("weight", weight)], lambda readings: print(readings.norms, readings.nonfinite()))
    >>> weight.grad = torch.tensor([3.0, 4.0, 0.0])
    >>> watch.measure(1)
    (5.0,) {}
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
        deliver: Callable[[TensorReadings], None],
        settings: PointSettings | None = None,
    ) -> None:
        named = list(named_parameters)
        if not named:
            raise ValueError("there is no parameter to watch")
        self._names = tuple(name for name, _ in named)
        self._parameters = [parameter for _, parameter in named]
        self._deliver = deliver
        device = self._parameters[0].device
        self._test = PointTest(len(named), device, settings)
        self._values = DeviceValues(device)

    @torch.no_grad()
    def measure(self, step: int) -> None:
        """Of the gradients as they are: after ``backward`` and unscaling, before they are clipped or set to None."""
        norms = local_norms(self._parameters)
        judged = self._test.judge(norms)
        packed = torch.stack((norms, self._num_nonfinite(), judged.scores, judged.is_far.to(norms.dtype)))
        self._values.send_packed(packed.flatten(), lambda values: self._deliver(self._readings(step, values)))

    def flush(self) -> None:
        """Delivers everything; waits for the device."""
        self._values.flush()

    def state_dict(self) -> dict[str, Any]:
        return self._test.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises as :meth:`PointTest.load_state_dict` does."""
        self._test.load_state_dict(dict(state))

    def _num_nonfinite(self) -> torch.Tensor:
        """A number less itself is zero, and what is none is not."""
        gradients = [local_gradient(parameter) for parameter in self._parameters]
        present = [gradient for gradient in gradients if gradient is not None]
        device = self._parameters[0].device
        zero = torch.zeros((), device=device)
        if not present:
            return zero.expand(len(gradients))
        counts = iter([torch.count_nonzero(each) for each in torch._foreach_sub(present, present)])
        return torch.stack([zero if each is None else next(counts).to(zero) for each in gradients])

    def _readings(self, step: int, values: list[float]) -> TensorReadings:
        count = len(self._names)
        norms, num_nonfinite, scores, far = (tuple(values[at : at + count]) for at in range(0, 4 * count, count))
        return TensorReadings(step, self._names, norms, num_nonfinite, scores, tuple(map(bool, far)))
