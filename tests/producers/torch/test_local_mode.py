"""A torch loop in local mode is hurt and healed by a recorder of its own, with nothing else on the machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from holter import producers  # noqa: E402
from holter.pipeline.local.spool import SpoolReader  # noqa: E402
from holter.producers.torch import Guard  # noqa: E402
from holter.schemas import codec  # noqa: E402
from holter.schemas.decisions import Outcome  # noqa: E402
from holter.schemas.telemetry import Ack  # noqa: E402
from holter.schemas.topics import DECISIONS, TELEMETRY  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.services]

ALLOWED: Any = ("nan_guard", "lr_factor", "momentum_reset", "rollback", "skip_range")
HURT_FROM, HURT_FACTOR, NUM_HURT = 120, 200.0, 5
MAX_STEPS = 3000
STEPS_AFTER = 60
KEPT = 40
"""Steps of a millisecond: on a busy machine a decision comes a second later, and what it names must still be there."""
STEP_SECONDS = 0.001
"""A pause a step: the recorder needs its turn on a machine with few cores."""


def make_loader() -> DataLoader[Any]:
    inputs = torch.randn(1024, 8)
    return DataLoader(TensorDataset(inputs, torch.sin(inputs.sum(1, keepdim=True))), batch_size=32, shuffle=True)


def train(folder: Path) -> list[float]:
    """Losses of the steps as they were taken; ends some steps after a rollback."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    run = producers.init("tests", "heal", mode="local", runs=folder / "runs", environ={})
    guard = Guard(
        run, model, optimizer, checkpoints=folder / "checkpoints", checkpoint_every=20, keep=KEPT, allow=ALLOWED
    )
    losses: list[float] = []
    steps_after = 0
    for inputs, targets in guard.batches(make_loader(), until=MAX_STEPS):
        is_hurt = HURT_FROM <= len(losses) < HURT_FROM + NUM_HURT
        rate = optimizer.param_groups[0]["lr"]
        if is_hurt:
            optimizer.param_groups[0]["lr"] = rate * HURT_FACTOR
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        guard.backward(loss)
        guard.step()
        if is_hurt:
            optimizer.param_groups[0]["lr"] = rate
        losses.append(loss.item())
        time.sleep(STEP_SECONDS)
        steps_after += guard.last_step < len(losses)
        if steps_after > STEPS_AFTER:
            break
    run.finish()
    assert run.stats()["num_dropped"] == 0
    return losses


def test_a_burst_of_the_learning_rate_is_rolled_back(tmp_path: Path) -> None:
    losses = train(tmp_path)
    entries = list(SpoolReader(tmp_path / "runs" / "tests" / "heal" / "records.spool"))
    records = [codec.telemetry.decode(entry.value) for entry in entries if entry.topic == TELEMETRY.name]
    acks = [record for record in records if isinstance(record, Ack)]
    assert [ack.status for ack in acks][:1] == ["applied"]
    assert "rollback" in {report.effect for report in acks[0].effects}
    assert max(losses) > 5 * max(losses[20:HURT_FROM])
    assert sum(losses[-20:]) / 20 < 1.5 * sum(losses[HURT_FROM - 20 : HURT_FROM]) / 20
    decisions = [codec.decisions.decode(each.value) for entry in entries for each in entry.said
                 if each.topic == DECISIONS.name]  # fmt: skip
    assert [each.result for each in decisions if isinstance(each, Outcome)] == ["recovered"]
