"""Where the faults strike."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from holter.infra.rescue.arm import HEALTHY, Arm, make_fault
from holter.infra.rescue.faults import FAULTS, LrBurstAndDamagedCheckpoint, _last_healthy
from holter.infra.rescue.prefix import Plan
from holter.infra.rescue.workload import RECIPES, build

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_data_is_met_again_and_another_is_not(name: str) -> None:
    plan = Plan(FAULTS[name].workload, 1, 300)
    fault = make_fault(Arm(plan, name, "shadow"))
    executed, index = plan.struck_after, plan.prefix_steps + plan.struck_after
    assert fault.is_struck(executed, index)
    assert fault.is_struck(executed + 200, index) == (FAULTS[name].bound == "data position")
    assert fault.is_struck(executed, index + 200) == (FAULTS[name].bound == "wall step")


def test_an_unhurt_run_is_never_struck() -> None:
    fault = make_fault(Arm(Plan("gpt", 1, 300), HEALTHY, "shadow"))
    assert not any(fault.is_struck(executed, 300 + executed) for executed in range(400))


def test_every_workload_is_of_some_fault() -> None:
    assert {kind.workload for kind in FAULTS.values()} == set(RECIPES)


def test_seeds_are_struck_at_different_places_after_a_checkpoint_is_proven() -> None:
    struck = {Plan("gpt", seed, 300).struck_after for seed in (1, 2, 3)}
    assert len(struck) == 3
    assert min(struck) > 20


def test_the_checkpoint_is_damaged_that_the_run_goes_back_to(tmp_path: Path) -> None:
    paths = [tmp_path / f"{step}.pt" for step in (280, 300, 320)]
    for path in paths:
        path.write_bytes(b"weights" * 10)
        os.utime(path, (int(path.stem), int(path.stem)))
    setup = build("convnet", 1, 10, lambda index, batch: batch)
    fault = LrBurstAndDamagedCheckpoint(0)
    fault.attach(setup, tmp_path)
    fault.before_step(setup)
    assert [path.read_bytes() == b"weights" * 10 for path in paths] == [True, False, True]


def test_a_checkpoint_that_is_rotated_meanwhile_is_the_oldest(tmp_path: Path) -> None:
    for step in (20, 30, 40):
        (tmp_path / f"{step}.pt").touch()
        os.utime(tmp_path / f"{step}.pt", ns=(step, step))
    (tmp_path / "10.pt").symlink_to("gone")
    assert _last_healthy(tmp_path).name == "30.pt"
