"""What the checks share: the job, its parts, and two measurements that are made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from holter.producers.torch.preflight.anatomy import Anatomy
from holter.producers.torch.preflight.first_step import FirstStep, first_step
from holter.producers.torch.preflight.probe import CannotTell, Probe, probe
from holter.producers.torch.preflight.subject import Subject

MeasuredT = TypeVar("MeasuredT")


class Examined:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.anatomy = Anatomy(subject.model)

    @property
    def probe(self) -> Probe:
        """Raises :class:`CannotTell`."""
        return _result(self._probed)

    @property
    def first_step(self) -> FirstStep:
        """Raises :class:`CannotTell`."""
        return _result(self._stepped)

    @cached_property
    def _probed(self) -> Probe | CannotTell:
        return _attempt(lambda: probe(self.anatomy, self.subject.batch))

    @cached_property
    def _stepped(self) -> FirstStep | CannotTell:
        return _attempt(lambda: first_step(self.subject, self.anatomy))


def _attempt(measure: Callable[[], MeasuredT]) -> MeasuredT | CannotTell:
    try:
        return measure()
    except CannotTell as error:
        return error


def _result(measured: MeasuredT | CannotTell) -> MeasuredT:
    if isinstance(measured, CannotTell):
        raise measured
    return measured
