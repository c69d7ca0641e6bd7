"""How a training is spread over ranks, and what each of them can see of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import torch

from holter.producers.run import Run
from holter.producers.torch.agreement import join
from holter.producers.torch.gradients import Gradients, ShardedGradients
from holter.producers.torch.norms import UpdateNorm, make_update_norm
from holter.producers.torch.ranks import Apart, Ranks, has_process_group, is_data_parallel, num_ranks
from holter.producers.torch.sharded_norms import GlobalUpdateNorm
from holter.producers.torch.sharding import is_flat_sharded, is_sharded, local_part, parts_of
from holter.schemas.bounds import Scope, UpdateNormSource


@dataclass(frozen=True)
class Parallelism:
    """Settled once, before the first step: what needs all ranks is done by all of them at every step, or by none."""

    ranks: Ranks
    publishes: bool
    """Whether any rank does."""
    shares_weights: bool
    """Whether every rank has all weights, and gradients that were reduced (DDP)."""
    is_sharded: bool
    """Whether every rank has a part of all weights (FSDP2)."""
    has_shards: bool
    is_flat: bool
    """Whether it is FSDP1's."""
    adds_norms: bool
    """Whether norms are added up over the ranks."""

    @property
    def sees_all_gradients(self) -> bool:
        """Whether a bad gradient is one on every rank, so that all of them skip the same steps."""
        return self.ranks.num_ranks == 1 or self.shares_weights or (self.is_sharded and self.adds_norms)

    @property
    def norm_scope(self) -> Scope:
        if self.ranks.num_ranks == 1:
            return "rank"
        if self.is_flat:
            return "shard"
        return "global" if self.shares_weights or self.has_shards else "rank"

    @property
    def measures_norm(self) -> bool:
        """Whether a gradient norm costs no agreement that there is not."""
        return self.adds_norms or not self.has_shards

    def gradients(self, parameters: Sequence[torch.nn.Parameter]) -> Gradients:
        return ShardedGradients(parameters) if self.has_shards else Gradients(parameters)

    def update_norm(self, parameters: Sequence[torch.nn.Parameter], source: UpdateNormSource) -> UpdateNorm | None:
        if not self.publishes or source == "none":
            return None
        if self.adds_norms:
            return GlobalUpdateNorm(parts_of(parameters), source)
        return make_update_norm([local_part(weight) for weight in parameters], source)


def meet(
    run: Run,
    model: torch.nn.Module,
    parameters: Sequence[torch.nn.Parameter],
    settings: object,
    patience_seconds: float,
) -> Parallelism:
    """Meets the other ranks, where there are any. ``settings`` have to be the same on all of them."""
    ranks = _ranks(run, settings, patience_seconds)
    said = ranks.gather(b"1" if run.enabled else b"")
    shards = [is_sharded(weight) for weight in parameters]
    return Parallelism(
        ranks,
        publishes=run.enabled if said is None else any(said),
        shares_weights=is_data_parallel(model),
        is_sharded=all(shards),
        has_shards=any(shards),
        is_flat=is_flat_sharded(model),
        adds_norms=any(shards) and ranks.is_armed,
    )


def _ranks(run: Run, settings: object, patience_seconds: float) -> Ranks:
    number = num_ranks(run.num_ranks)
    if number == 1:
        return Ranks()
    if not has_process_group():
        return Apart(run.rank, number)

    def disarmed(why: str) -> None:
        run.notices.warn("ranks", f"Holter applies no actions any more, training is not affected: {why}")

    return join(run.name, run.rank, number, msgspec.msgpack.encode(settings), patience_seconds, disarmed)
