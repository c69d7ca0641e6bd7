"""Going back in loops of the real Megatron-Core; what its optimizers ask for on CUDA is made on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("megatron.core")

from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.optimizer.grad_scaler import DynamicGradScaler  # noqa: E402
from megatron.core.optimizer.optimizer import (  # noqa: E402
    ChainedOptimizer,
    Float16OptimizerWithFloat16Params,
    FP32Optimizer,
)
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

from holter.producers.examples.cuda_as_cpu import cuda_as_cpu  # noqa: E402
from holter.producers.integrations.megatron import watch  # noqa: E402
from holter.schemas.control import LrFactor, Rollback  # noqa: E402
from holter.schemas.telemetry import CheckpointSaved, Started  # noqa: E402
from tests.producers.torch.loops import make_run  # noqa: E402
from tests.producers.torch.several_ranks import PATIENCE_SECONDS, make_ranked_run, run_ranks  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.services, pytest.mark.frameworks, pytest.mark.timeout(480)]
KINDS = ("fp32", "bf16", "fp16", "chained")
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "chained": torch.float32,
    "distributed": torch.bfloat16,
}


def make_cpu_current(patch: pytest.MonkeyPatch) -> None:
    """For what is asked for by other ways than ``cuda_as_cpu`` knows."""
    if not torch.cuda.is_available():
        patch.setattr(torch.cuda, "current_device", lambda: "cpu")
        patch.setattr(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor)


@pytest.fixture
def one_rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_cpu_current(monkeypatch)
    with cuda_as_cpu():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        parallel_state.initialize_model_parallel()
        yield
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()


def make_part(kind: str, weights: list[torch.nn.Parameter]) -> Any:
    inner = torch.optim.AdamW([{"params": weights, "max_lr": 0.01, "min_lr": 0.0}], lr=0.01)
    config = OptimizerConfig(lr=0.01, clip_grad=1.0, bf16=kind == "bf16", fp16=kind == "fp16")
    if kind in ("fp32", "chained"):
        part: Any = FP32Optimizer(inner, config, lambda *_: None)
    else:
        scaler = DynamicGradScaler(64.0, 1.0, 2.0, 0.5, 2, 1) if kind == "fp16" else None
        part = Float16OptimizerWithFloat16Params(inner, config, scaler, lambda *_: None)
    part.grad_stats_parallel_group = parallel_state.get_model_parallel_group()
    part.tp_group = parallel_state.get_tensor_model_parallel_group()
    return part


def make_parts(kind: str, model: torch.nn.Module) -> list[Any]:
    weights = list(model.parameters())
    halves = [weights[:1], weights[1:]] if kind == "chained" else [weights]
    return [make_part(kind, half) for half in halves]


def make_distributed(model: torch.nn.Module) -> tuple[torch.nn.Module, Any]:
    """The distributed optimizer, and data parallelism with the buffers that it needs."""
    shape = TransformerConfig(num_layers=1, hidden_size=4, num_attention_heads=1, use_cpu_initialization=True)
    parallel = DistributedDataParallel(shape, DistributedDataParallelConfig(use_distributed_optimizer=True), model)
    config = OptimizerConfig(lr=0.01, min_lr=0.0, clip_grad=1.0, bf16=True, use_distributed_optimizer=True)
    return parallel, get_megatron_optimizer(config, [parallel])


class Loop:
    def __init__(self, run: Any, kind: str, folder: Path) -> None:
        torch.manual_seed(0)
        self.model: Any = torch.nn.Linear(4, 1).to(DTYPES[kind])
        if kind == "distributed":
            self.model, self.optimizer = make_distributed(self.model)
            self.parts = self.optimizer.chained_optimizers
        else:
            self.parts = make_parts(kind, self.model)
            self.optimizer = ChainedOptimizer(self.parts) if kind == "chained" else self.parts[0]
        self.scheduler = OptimizerParamScheduler(self.optimizer, 0.0, 0.01, 0.0, 0, 20, "linear", 0, 0, 1, "constant")
        self.hooks = watch(
            self.model, self.optimizer, self.scheduler, run=run, allow={"rollback", "lr_factor"},
            checkpoints=folder, checkpoint_every=3, patience_seconds=PATIENCE_SECONDS,
        )  # fmt: skip

    def step(self) -> None:
        if isinstance(self.model, DistributedDataParallel):
            self.model.zero_grad_buffer()
        inputs = torch.randn(4, 4).to(next(self.model.parameters()).dtype)
        loss = (self.model(inputs) - inputs.sum(1, keepdim=True)).float().square().mean()
        self.hooks.add_loss(loss)
        (loss * self.optimizer.get_loss_scale()).backward()
        self._finish_gradients()
        if self.optimizer.step()[0]:
            self.scheduler.step(1)
        self.optimizer.zero_grad()

    def all_numbers(self) -> list[float]:
        """Of weights, the optimizer's copy of them, moments, loss scale and learning rate."""
        inner = [part.optimizer for part in self.parts]
        own = [weight for each in inner for group in each.param_groups for weight in group["params"]]
        moments = [value for each in inner for state in each.state.values() for value in state.values()]
        tensors = [*self.model.parameters(), *own, *moments, self.optimizer.get_loss_scale()]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [number for each in tensors for number in each.flatten().tolist()] + [self.scheduler.num_steps, *rates]

    def _finish_gradients(self) -> None:
        if isinstance(self.model, DistributedDataParallel):
            self.model.finish_grad_sync()
            return
        for weight in self.model.parameters():
            weight.main_grad = weight.grad


def go_back(loop: Loop, told: FakeWatch | None) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """All numbers after each of six steps, and after the steps from the third on that were done again.

    ``told`` is the `watch` of the rank that hears actions.
    """
    first: dict[int, list[float]] = {}
    again: dict[int, list[float]] = {}
    for step in range(1, 7):
        loop.step()
        first[step] = loop.all_numbers()
    if told is not None:
        (saved,) = await_(lambda: [each for each in told.events(CheckpointSaved) if each.step == 3], "a checkpoint")
        assert isinstance(saved.event, CheckpointSaved)
        told.act([Rollback(saved.event.checkpoint, 3)])
        control = loop.hooks.run.control
        assert control is not None
        await_(lambda: control.is_due(7), "the action")
    while loop.hooks.last_step > 3:  # ranks hear of it a step later
        loop.step()
    again[3] = loop.all_numbers()
    for step in range(4, 7):
        loop.step()
        again[step] = loop.all_numbers()
    return first, again


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("kind", KINDS)
def test_after_it_went_back_the_same_steps_are_done_again(kind: str, tmp_path: Path) -> None:
    told = FakeWatch()
    loop = Loop(make_run(told), kind, tmp_path)
    first, again = go_back(loop, told)
    loop.hooks.run.finish()
    assert again == {step: first[step] for step in (3, 4, 5, 6)}
    (ack,) = told.acks()
    assert ack.status == "applied"


def distributed_ranks(rank: int, num_ranks: int, folder: Path) -> tuple[Any, Any, list[str]]:
    told = FakeWatch()
    with pytest.MonkeyPatch.context() as patch, cuda_as_cpu():
        make_cpu_current(patch)
        parallel_state.initialize_model_parallel()
        loop = Loop(make_ranked_run(told, rank, num_ranks), "distributed", folder)
        first, again = go_back(loop, told if rank == 0 else None)
        loop.hooks.run.finish()
    return first, again, [ack.status for ack in told.acks()]


def test_the_ranks_of_a_distributed_optimizer_go_back_together(tmp_path: Path) -> None:
    results = run_ranks(distributed_ranks, 2, tmp_path)
    for first, again, _ in results:
        assert again == {step: first[step] for step in (3, 4, 5, 6)}
    assert results[0][2] == ["applied"]
    assert results[0][0] != results[1][0]  # each has a part of its own


@pytest.mark.usefixtures("one_rank")
def test_a_lowered_rate_is_forgotten_by_going_back_before_it(tmp_path: Path) -> None:
    told = FakeWatch()
    loop = Loop(make_run(told), "fp32", tmp_path)
    for _ in range(3):
        loop.step()
    saved = await_(lambda: told.events(CheckpointSaved), "a checkpoint")[0]
    rate, control = loop.optimizer.param_groups[0]["lr"], loop.hooks.run.control
    assert isinstance(saved.event, CheckpointSaved)
    assert control is not None
    for effects in ([LrFactor(0.5)], [Rollback(saved.event.checkpoint, 3)]):
        told.act(effects)
        await_(lambda: control.is_due(loop.hooks.last_step + 1), "the action")
        loop.step()
    loop.hooks.run.finish()
    assert [ack.status for ack in told.acks()] == ["applied"] * 2
    assert loop.optimizer.param_groups[0]["lr"] == rate


@pytest.mark.usefixtures("one_rank")
def test_that_it_can_go_back_is_reported(tmp_path: Path) -> None:
    told = FakeWatch()
    Loop(make_run(told), "fp32", tmp_path).hooks.run.finish()
    (started,) = told.events(Started)
    assert isinstance(started.event, Started)
    assert set(started.event.effects) >= {"lr_factor", "rollback", "skip_range", "checkpoint_now"}
