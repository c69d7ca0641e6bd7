"""Getting scalars from a device to the host without making either wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

_LAG_WITHOUT_EVENTS = 2
_FEWEST_VALUES = 8


def host_value(scalar: torch.Tensor) -> float:
    """The value of a CPU scalar, or of the first element where it has a shape, read from its memory (``item()`` would
    be a dispatched synchronisation)."""
    value: Any = scalar.tolist()
    while type(value) is list:
        value = value[0]
    return float(value)


def on_host(scalar: torch.Tensor) -> torch.Tensor | float:
    """The value where it is there already; on a device the scalar, without its graph."""
    return host_value(scalar) if scalar.device.type == "cpu" else scalar.detach()


class _InFlight(NamedTuple):
    values: torch.Tensor
    copied: torch.cuda.Event | None
    deliver: Callable[[list[float]], None]


class DeviceValues:
    """Delivers the values of a step in order, once they have arrived.

    On the CPU that is at once. From CUDA they travel by one asynchronous copy into pinned memory and are delivered
    one or two steps later, by a call to :meth:`deliver_arrived` that asks and never waits. Other devices have no
    events to ask: their values are read two steps later.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._in_flight: deque[_InFlight] = deque()
        self._buffers: list[torch.Tensor] = []

    @property
    def is_immediate(self) -> bool:
        """Whether nothing is ever on its way: values are delivered by the call that sends them."""
        return self._device.type == "cpu"

    def send(self, scalars: Sequence[torch.Tensor], deliver: Callable[[list[float]], None]) -> None:
        if self.is_immediate:
            deliver([host_value(scalar) for scalar in scalars])
            return
        self.send_packed(torch.stack([each.detach().to(self._device, torch.float32) for each in scalars]), deliver)

    def send_packed(self, values: torch.Tensor, deliver: Callable[[list[float]], None]) -> None:
        """The same for a float32 vector; all vectors of one instance have one size, or at most eight elements."""
        if self.is_immediate:
            deliver(values.tolist())
            return
        self._in_flight.append(self._copy(values, deliver))
        self.deliver_arrived()

    def deliver_arrived(self) -> None:
        while self._in_flight and self._has_arrived(self._in_flight[0]):
            self._deliver(self._in_flight.popleft())

    def flush(self) -> None:
        """Delivers everything; waits for the device."""
        while self._in_flight:
            first = self._in_flight.popleft()
            if first.copied is not None:
                first.copied.synchronize()
            self._deliver(first)

    def _copy(self, packed: torch.Tensor, deliver: Callable[[list[float]], None]) -> _InFlight:
        if self._device.type != "cuda":
            return _InFlight(packed, None, deliver)
        size = max(_FEWEST_VALUES, packed.numel())
        buffer = self._buffers.pop() if self._buffers else torch.empty(size, dtype=torch.float32, pin_memory=True)
        target = buffer[: packed.numel()]
        target.copy_(packed, non_blocking=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record(torch.cuda.current_stream(self._device))
        return _InFlight(target, copied, deliver)

    def _has_arrived(self, first: _InFlight) -> bool:
        if first.copied is not None:
            return bool(first.copied.query())  # type: ignore[no-untyped-call]
        return len(self._in_flight) > _LAG_WITHOUT_EVENTS

    def _deliver(self, arrived: _InFlight) -> None:
        values = arrived.values if arrived.copied is not None else arrived.values.cpu()
        arrived.deliver([float(value) for value in values.numpy()])
        if arrived.copied is not None and arrived.values._base is not None:
            self._buffers.append(arrived.values._base)
