from __future__ import annotations

import pytest
import torch

from holter.infra.stabilisers.faults import Fault

pytestmark = pytest.mark.torch
BATCH = (torch.arange(12).view(3, 4), torch.ones(3))


def test_five_steps_blow_up_three_matrices_and_nothing_else() -> None:
    fault, struck = Fault("gradient", 100, 0), {}
    for step in range(100):
        parameters = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(6)] + [torch.nn.Parameter(torch.ones(2))]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        fault.hurt_gradients(step, parameters)
        grown = [at for at, each in enumerate(parameters) if each.grad is not None and float(each.grad.max()) == 1000.0]
        if grown:
            struck[step] = grown
    assert list(struck) == [30, 40, 50, 60, 70]
    assert all(len(grown) == 3 and 6 not in grown for grown in struck.values())
    assert len({tuple(grown) for grown in struck.values()}) > 1


def test_bursts_of_garbage_are_of_random_or_of_constant_tokens() -> None:
    fault = Fault("data", 100, 0)
    hurt = [step for step in range(100) if fault.hurt_batch(step, BATCH)[0] is not BATCH[0]]
    assert hurt == [30, 31, 32, 50, 51, 52, 70, 71, 72]
    assert len(fault.hurt_batch(30, BATCH)[0].unique()) > 1
    assert len(fault.hurt_batch(50, BATCH)[0].unique()) == 1


def test_the_learning_rate_bursts_for_five_steps() -> None:
    fault = Fault("lr", 100, 0)
    assert [step for step in range(100) if fault.rate_factor(step) == 30.0] == [58, 59, 60, 61, 62]
    assert fault.last_struck == 62
    assert [fault.onset_of_ended(step) for step in (61, 62, 63)] == [None, 58, None]


def test_a_clean_run_is_not_touched() -> None:
    fault = Fault("clean", 100, 0)
    assert all(fault.hurt_batch(step, BATCH) is BATCH and fault.rate_factor(step) == 1.0 for step in range(100))
    assert fault.onset_of_ended(30) is None
