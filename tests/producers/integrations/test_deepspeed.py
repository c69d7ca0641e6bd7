"""DeepSpeed's engine on the CPU, alone and on two ranks.

It has fp16 there only on machines with instructions for it; torch computes it on any, so its check is switched off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

import deepspeed  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402

from holter.producers.examples import deepspeed_loop  # noqa: E402
from holter.producers.integrations.deepspeed import watch  # noqa: E402
from holter.schemas.control import LrFactor  # noqa: E402
from holter.schemas.telemetry import WEIGHT_NORM, Finished, Started  # noqa: E402
from tests.producers.integrations.recorded import read_story  # noqa: E402
from tests.producers.torch.loops import make_run  # noqa: E402
from tests.producers.torch.several_ranks import PATIENCE_SECONDS, make_ranked_run, run_ranks  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.services, pytest.mark.frameworks, pytest.mark.timeout(480)]


class WithFp16(type(get_accelerator())):  # type: ignore[misc]
    def is_fp16_supported(self) -> bool:
        return True


def prepare(patch: pytest.MonkeyPatch, rank: int) -> None:
    patch.setitem(deepspeed.ops.__compatible_ops__, "deepspeed_shm_comm", False)
    patch.setattr(get_accelerator(), "__class__", WithFp16)
    patch.setenv("LOCAL_RANK", str(rank))


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """DeepSpeed wants a process group, also of one."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, 0)
        yield
    torch.distributed.destroy_process_group()


class Loop:
    def __init__(
        self, told: FakeWatch, config: dict[str, Any], scheduler: Any = None, run: Any = None, **settings: Any
    ) -> None:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        made = scheduler or (lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 10))
        whole = {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 1000, **config}
        self.engine, *_ = deepspeed.initialize(
            model=model, optimizer=self.optimizer, lr_scheduler=made(self.optimizer), config=whole
        )
        self.dtype = next(model.parameters()).dtype
        self.hooks = watch(self.engine, run=run or make_run(told), **{"checkpoints": None, **settings})
        self.losses: list[float] = []

    def batch(self, hurt: float = 1.0) -> None:
        inputs = torch.randn(4, 4, dtype=self.dtype)
        loss = (self.engine(inputs) - inputs.sum(1, keepdim=True)).float().square().mean() * hurt
        self.engine.backward(loss)
        self.engine.step()
        self.losses.append(loss.item())

    def end(self) -> None:
        self.hooks.run.finish()
        self.engine.destroy()


BF16 = {"bf16": {"enabled": True}, "gradient_clipping": 0.01}
FP16 = {"fp16": {"enabled": True, "initial_scale_power": 8}, "gradient_clipping": 0.01}
FP32 = {"gradient_clipping": 0.01}


def zero(config: dict[str, Any], stage: int) -> dict[str, Any]:
    return {**config, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}


def test_values_are_those_of_each_step_and_accumulated_batches_are_one() -> None:
    told = FakeWatch()
    loop = Loop(told, {"gradient_accumulation_steps": 2, "gradient_clipping": 0.01})
    for _ in range(4):
        loop.batch()
    loop.end()
    means = [(one + two) / 2 for one, two in zip(loop.losses[::2], loop.losses[1::2], strict=True)]
    assert list(told.values("train/loss").values()) == pytest.approx(means)
    assert min(told.values("train/grad_norm").values()) > 0.1
    assert told.batches()[0].accumulation == 2
    assert told.events(Finished)


SKIPPING = {
    "bf16": zero(BF16, 0), "bf16-1": zero(BF16, 1), "bf16-3": zero(BF16, 3), "fp16": zero(FP16, 0),
    "fp16-2": zero(FP16, 2), "fp32-2": zero(FP32, 2), "fp32-3": zero(FP32, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SKIPPING)
def test_a_skipped_step_counts_and_is_marked(name: str) -> None:
    told = FakeWatch()
    loop = Loop(told, SKIPPING[name])
    for hurt in (1.0, math.nan, 1.0):
        loop.batch(hurt)
    loop.end()
    norms = told.values("train/grad_norm")
    assert list(norms) == [1, 2, 3]
    assert norms[1] > 0.1
    assert math.isinf(norms[2])
    assert told.not_applied() == [2]
    assert told.values("optim/lr")[3] == pytest.approx(0.009)
    assert all(0.0 < norm < math.inf for norm in told.values(WEIGHT_NORM).values())
    scales = list(told.values("optim/loss_scale").values())
    assert scales == {"fp16": [256, 128, 128], "fp16-2": [256, 256, 256]}.get(name, [])  # two overflows halve it there
    (started,) = told.events(Started)
    assert set(started.event.effects) >= {"nan_guard", "lr_factor"}
    assert "rollback" not in started.event.effects
    assert told.batches()[0].grad_norm_scope == "global"


@pytest.mark.parametrize(
    "scheduler",
    [
        None,
        lambda optimizer: deepspeed.runtime.lr_schedules.WarmupLR(optimizer, 0.0, 0.01, 6),
        lambda optimizer: deepspeed.runtime.lr_schedules.WarmupCosineLR(optimizer, 12),
    ],
    ids=["torch", "WarmupLR", "WarmupCosineLR"],
)
def test_a_factor_on_the_learning_rate_outlives_the_scheduler(scheduler: Any) -> None:
    told = FakeWatch()
    loop = Loop(told, BF16, scheduler, allow={"lr_factor"})
    loop.batch()
    told.act([LrFactor(0.5)])
    control = loop.hooks.run.control
    assert control is not None
    await_(lambda: control.is_due(1), "the action")
    for _ in range(4):
        loop.batch()
    loop.end()
    rates = list(told.values("optim/lr").values())
    plain = Loop(FakeWatch(), BF16, scheduler, allow=())
    expected = []
    for _ in range(5):
        expected.append(plain.engine.get_lr()[0])
        plain.batch()
    plain.end()
    assert rates[2:] == pytest.approx([rate / 2 for rate in expected[2:]])


def on_a_rank(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, rank)
        for name, config in {"fp16-1": zero(FP16, 1), "bf16-2": zero(BF16, 2), "fp32-3": zero(FP32, 3)}.items():
            told = FakeWatch()
            run = make_ranked_run(told, rank, num_ranks)
            loop = Loop(told, config, run=run, allow={"nan_guard", "lr_factor"}, patience_seconds=PATIENCE_SECONDS)
            loop.batch()
            if rank == 0:
                told.act([LrFactor(0.5)])
                await_(lambda: run.control.is_due(1), "the action")  # noqa: B023
            for hurt in (math.nan, 1.0, 1.0, 1.0):
                loop.batch(hurt)
            rate = loop.engine.get_lr()[0]
            loop.end()
            found[name] = rate, told
    return {name: (rate, summary(told) if rank == 0 else None) for name, (rate, told) in found.items()}


def summary(told: FakeWatch) -> dict[str, Any]:
    (started,) = told.events(Started)
    return {
        "effects": set(started.event.effects),
        "not_applied": told.not_applied(),
        "norms": list(told.values("train/grad_norm").values()),
        "scopes": {batch.grad_norm_scope for batch in told.batches()},
    }


def test_two_ranks_skip_and_act_together(tmp_path: Path) -> None:
    for name, of_ranks in by_name(run_ranks(on_a_rank, 2, tmp_path)).items():
        rates, (told, _) = zip(*of_ranks, strict=True)
        assert rates == pytest.approx([0.5 * 0.006] * 2), name
        assert told["effects"] == {"nan_guard", "lr_factor"}
        assert told["not_applied"] == [2]
        assert [math.isfinite(norm) for norm in told["norms"]] == [True, False, True, True, True]
        assert told["scopes"] == {"global"}


def by_name(results: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [result[name] for result in results] for name in results[0]}


def test_what_cannot_be_watched_is_told_in_a_line() -> None:
    loop = Loop(FakeWatch(), {})
    with pytest.raises(ValueError, match=r"^this engine is watched already: call watch once$"):
        watch(loop.engine, "tests")
    loop.end()
    assert not {"step", "backward", "clip_fp32_gradients"} & set(vars(loop.engine))


def test_the_example_is_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLTER_MODE", "local")
    deepspeed_loop.main(["--fault", "lr-burst"])
    (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("final loss"))
    story = read_story(tmp_path / "holter-runs" / "examples")
    assert 200 in {signal.onset_step for signal in story.signals}
    assert "rollback" in story.effects()
    assert float(said.split()[-1]) < 0.2  # as the other libraries' examples; untreated it ends near 1
