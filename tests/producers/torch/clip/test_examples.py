"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    "module",
    ["holter.producers.torch.clip", *(f"holter.producers.torch.clip.{name}" for name in ("make", "units", "window"))],
)
def test_examples(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(module))
    assert outcome.attempted > 0
    assert outcome.failed == 0
