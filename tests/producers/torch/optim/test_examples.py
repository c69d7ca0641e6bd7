"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("module", ["make", "outliers", "polar", "shrink", "spam", "sparse_moments"])
def test_examples(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"holter.producers.torch.optim.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
