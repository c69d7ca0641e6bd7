"""Runs through the real stack are compared with a matrix of the default policy."""

from __future__ import annotations

import pytest

from holter.infra.errors import StackError
from holter.infra.rescue.live import bus_of_stack
from holter.infra.state import StackState

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (StackState(policy="expected-cost"), "no stack is up"),
        (StackState(policy="cautious", kafka_bootstrap="127.0.0.1:9"), "holter up --policy expected-cost"),
    ],
)
def test_only_a_stack_that_decides_by_the_default_policy_will_do(state: StackState, reason: str) -> None:
    with pytest.raises(StackError, match=reason):
        bus_of_stack(state)
