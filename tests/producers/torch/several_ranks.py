"""Jobs of several processes for tests: gloo on the loopback, everything under a deadline, nothing left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from holter import producers
from holter.producers import Run
from holter.producers.torch import Guard, agreement
from holter.schemas import codec
from holter.schemas.control import Effect
from holter.schemas.topics import RANKS
from tests.ports import free_port
from tests.producers.torch.loops import ALL
from tests.producers.watch import KEYRING, FakeWatch, await_

DEADLINE_SECONDS = 200.0
PATIENCE_SECONDS = 20.0
"""So long that a busy machine disarms nobody: a rank that is really gone is noticed by its connection."""
PRELOADED = ["torch", "torch.distributed.fsdp", "torch._dynamo", "tests.producers.torch.several_ranks"]
"""What ranks are forked with: the first step of any optimizer imports ``torch._dynamo``, which takes seconds."""
DEAD = object()
"""What a rank leaves that ended without a result."""
Job = Callable[[int, int, Path], Any]


def run_ranks(job: Job, num_ranks: int, folder: Path, *settings: Any) -> list[Any]:
    """What ``job(rank, num_ranks, folder, *settings)`` returned, by rank; fails with a rank's traceback."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    port = free_port()
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for rank in range(num_ranks):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(theirs, job, rank, num_ranks, port, folder, *settings))
            process.start()
            theirs.close()
            started.append((process, mine))
        return _results([mine for _, mine in started])
    finally:
        for process, _ in started:
            process.kill()
            process.join()


def _results(pipes: list[Connection]) -> list[Any]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    results: list[Any] = []
    for rank, pipe in enumerate(pipes):
        assert pipe.poll(max(0.0, deadline - time.monotonic())), f"rank {rank} does not end"
        try:
            failure, result = pipe.recv()
        except EOFError:
            failure, result = "", DEAD
        assert not failure, f"rank {rank}: {failure}"
        results.append(result)
    return results


def _child(pipe: Connection, job: Job, rank: int, num_ranks: int, port: int, folder: Path, *settings: Any) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(num_ranks))
    agreement.ROUND_SECONDS = 0.0  # a round at every boundary, however short the steps are
    try:
        distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=num_ranks)
        pipe.send(("", job(rank, num_ranks, folder, *settings)))
        with contextlib.suppress(Exception):  # the others may be gone
            distributed.destroy_process_group()
    except BaseException:
        pipe.send((traceback.format_exc(), None))
    os._exit(0)


def plain(model: torch.nn.Module) -> torch.nn.Module:
    return model


def data_parallel(model: torch.nn.Module) -> torch.nn.Module:
    return DistributedDataParallel(model)


def fully_sharded(model: torch.nn.Module) -> torch.nn.Module:
    return _sharded(model, (distributed.get_world_size(),))


def hybrid_sharded(model: torch.nn.Module) -> torch.nn.Module:
    """Sharded over pairs of ranks; the pairs are copies of each other."""
    return _sharded(model, (distributed.get_world_size() // 2, 2))


def _sharded(model: torch.nn.Module, mesh_shape: tuple[int, ...]) -> torch.nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=("replicate", "shard")[-len(mesh_shape) :])
    for layer in model.children():
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def make_ranked_run(watch: FakeWatch, rank: int, num_ranks: int) -> Run:
    environ = {"RANK": str(rank), "WORLD_SIZE": str(num_ranks)}
    return producers.init(watch.project, watch.run, bus=watch.bus, keyring=KEYRING, environ=environ)


class RankWatch(FakeWatch):
    """Reads what a rank other than 0 published."""

    def records(self) -> list[Any]:
        return [codec.telemetry.decode(message.value or b"") for message in self.bus.log(RANKS)]


class RankedTraining:
    """One rank of a guarded loop, with a `watch` of its own on rank 0 (the other ranks read no control)."""

    def __init__(
        self,
        rank: int,
        num_ranks: int,
        folder: Path,
        *,
        wrap: Callable[[torch.nn.Module], torch.nn.Module] = data_parallel,
        optimizer: Callable[[Any], torch.optim.Optimizer] = lambda weights: torch.optim.AdamW(weights, lr=0.01),
        scheduled: bool = True,
        **settings: Any,
    ) -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
        )
        self.rank, self.watch = rank, RankWatch() if rank else FakeWatch()
        self.model = wrap(model)
        torch.manual_seed(rank)
        self.optimizer = optimizer(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 100) if scheduled else None
        self.run = make_ranked_run(self.watch, rank, num_ranks)
        inputs = torch.randn(num_ranks * 40 * 8, 4, generator=torch.Generator().manual_seed(1))
        data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
        loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, num_ranks, rank, shuffle=True))
        settings = {"checkpoint_every": 5, "allow": ALL, "patience_seconds": PATIENCE_SECONDS, **settings}
        self.guard = Guard(
            self.run, self.model, self.optimizer, scheduler=self.scheduler, checkpoints=folder, **settings
        )
        self._batches: Iterator[Any] = self.guard.batches(loader, until=1000)
        self.losses: dict[int, float] = {}

    def step(self, scale: float = 1.0) -> None:
        inputs, targets = next(self._batches)
        loss = torch.nn.functional.mse_loss(self.model(inputs * scale), targets)
        self.guard.backward(loss)
        self.guard.step()
        self.losses[self.guard.last_step] = loss.item()

    def step_with(self, scale: float, on_rank: int) -> None:
        self.step(scale if self.rank == on_rank else 1.0)

    def steps(self, number: int) -> None:
        for _ in range(number):
            self.step()

    def saved(self) -> None:
        """Until every rank's checkpoint is written."""
        saver = self.guard._recovery._saver
        assert saver is not None
        saver.wait()
        distributed.barrier()

    def act(self, *effects: Effect) -> None:
        """Sends an action from rank 0 and waits there until it is latched."""
        if self.rank != 0:
            return
        self.watch.act(effects, attempt=self.run.attempt)
        control = self.run.control
        assert control is not None
        await_(lambda: control.is_pending and control.is_armed, "the action is latched")

    def checkpoint_at(self, step: int) -> str:
        """Its name, which every rank knows."""
        files = self.guard._recovery._files
        assert files is not None
        return next(manifest.name for manifest in files.manifests() if manifest.step == step)

    def weights(self) -> list[Any]:
        with torch.no_grad():
            parts = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in self.model.parameters()]
        return [part.detach().clone().tolist() for part in parts]

    @property
    def rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def num_disarmed(self) -> int:
        return self.run.notices.counts.get("ranks", 0)
