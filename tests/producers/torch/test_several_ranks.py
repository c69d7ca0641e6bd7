"""What several ranks do about an action: all of them apply it at the same step, or none does."""

from __future__ import annotations

import copy
import math
import os
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch

from holter.producers.torch import Hooks, SkipExplosions, agreement, ballots, effects
from holter.producers.torch.clip import make
from holter.producers.torch.reflex import SelectingReflex
from holter.producers.torch.sharding import is_sharded, whole_norm
from holter.schemas.control import ClipAdjust, LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.telemetry import BadGradient, Started
from tests.producers.torch.clip.gradients import tensors_of
from tests.producers.torch.loops import ALL
from tests.producers.torch.several_ranks import (
    DEAD,
    RankedTraining,
    data_parallel,
    fully_sharded,
    hybrid_sharded,
    make_ranked_run,
    plain,
    run_ranks,
)
from tests.producers.torch.test_clipping import OPTIONS
from tests.producers.torch.test_explosions import delayed
from tests.producers.torch.test_guard import Counting
from tests.producers.watch import FakeWatch, await_

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]
WRAPS: dict[str, Any] = {"ddp": data_parallel, "fsdp2": fully_sharded, "hsdp": hybrid_sharded}


def cut_rate_and_go_back(rank: int, num_ranks: int, folder: Path, wrap: str) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=WRAPS[wrap])
    training.steps(2)
    training.act(LrFactor(0.5), MomentumReset())
    factors: list[float] = []
    for _ in range(3):
        training.step()
        factors.append(training.guard._recovery._objects.learning_rate.factor)
    at_five = training.weights()
    training.saved()
    training.step()
    training.act(Rollback(training.checkpoint_at(5), 5))
    training.step()
    first = {step: training.losses[step] for step in (6, 7)}
    training.step()
    restored = training.weights()
    training.losses.clear()
    training.steps(2)
    training.run.finish()
    started = training.watch.events(Started)
    return {
        "factors": factors,
        "restored": restored == at_five,
        "replayed": {step: training.losses[step] for step in (6, 7)} == first,
        "weights": training.weights(),
        "effects": [each.event.effects for each in started],  # type: ignore[union-attr]
        "acks": [(ack.status, ack.step, ack.reason) for ack in training.watch.acks()],
        "disarmed": training.num_disarmed,
        "attempt": training.run.attempt,
        "loss": first[6],
    }


@pytest.mark.parametrize(("wrap", "num_ranks"), [("ddp", 2), ("ddp", 4), ("fsdp2", 2), ("fsdp2", 4), ("hsdp", 4)])
def test_all_ranks_apply_the_same_at_the_same_step(tmp_path: Path, wrap: str, num_ranks: int) -> None:
    results = run_ranks(cut_rate_and_go_back, num_ranks, tmp_path, wrap)
    assert results[0]["acks"] == [("applied", 4, ""), ("applied", 8, "")]
    assert set(results[0]["effects"][0]) == set(ALL) - {"clip_adjust"}
    for result in results:
        assert result["factors"] == [1.0, 0.5, 0.5]
        assert (result["restored"], result["replayed"], result["disarmed"]) == (True, True, 0)
        assert (result["weights"], result["attempt"]) == (results[0]["weights"], results[0]["attempt"])
    assert [result["acks"] for result in results[1:]] == [[]] * (num_ranks - 1)
    assert len({result["loss"] for result in results}) == num_ranks  # every rank has data and dropout of its own


SETTINGS: dict[str, dict[str, Any]] = {
    "accumulated, clipped, tensor rate": {"accumulate": 2, "clip": 0.05, "rate": torch.tensor(0.01)},
    "scaler": {"scaler": True},
    "compiled": {},
    "selected as on a device": {},
}


def cut_rate_with(rank: int, num_ranks: int, folder: Path, wrap: str, name: str) -> dict[str, Any]:
    settings = dict(SETTINGS[name])
    rate = settings.pop("rate", 0.01)
    if settings.pop("scaler", False):
        settings["scaler"] = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def wrapped(model: torch.nn.Module) -> torch.nn.Module:
        model = WRAPS[wrap](model)
        return torch.compile(model, backend="aot_eager") if name == "compiled" else model  # type: ignore[return-value]

    training = RankedTraining(
        rank, num_ranks, folder, wrap=wrapped, optimizer=lambda weights: torch.optim.AdamW(weights, lr=rate), **settings
    )
    if name == "selected as on a device":
        training.guard._reflex = SelectingReflex()
    micro_steps = settings.get("accumulate", 1)
    training.steps(3 * micro_steps)
    training.act(LrFactor(0.5), *([ClipAdjust(0.5)] if "clip" in settings else []))
    training.steps(3 * micro_steps)
    training.step_with(math.inf, on_rank=1)
    training.steps(2 * micro_steps - 1)
    training.run.finish()
    clip = training.guard._clip
    return {
        "factor": training.guard._recovery._objects.learning_rate.factor,
        "clip": None if clip is None else clip.factor,
        "weights": training.weights(),
        "status": [(ack.status, ack.step) for ack in training.watch.acks()],
        "skipped": training.guard.num_skipped,
        "norms": training.watch.values("train/grad_norm"),
    }


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_however_a_step_is_taken(tmp_path: Path, wrap: str, name: str) -> None:
    results = run_ranks(cut_rate_with, 2, tmp_path, wrap, name)
    assert results[0]["status"] == [("applied", 5)]
    for result in results:
        assert (result["factor"], result["clip"]) == (0.5, 0.5 if "clip" in SETTINGS[name] else None)
        assert result["weights"] == results[0]["weights"]
        assert all(math.isfinite(value) for weight in result["weights"] for value in _flat(weight))
        assert result["skipped"] == 1  # what was not finite on rank 1 is not taken by anybody
    assert not math.isfinite(results[0]["norms"][7])


def _flat(values: Any) -> list[float]:
    return torch.tensor(values).flatten().tolist()


def reset_worst_group(rank: int, num_ranks: int, folder: Path) -> list[float]:
    effects.worst_groups = lambda optimizer, number: [rank]  # type: ignore[assignment]

    def grouped(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW([{"params": [each]} for each in weights])

    training = RankedTraining(rank, num_ranks, folder, optimizer=grouped)
    training.steps(2)
    training.act(MomentumReset(worst_groups=1))
    training.steps(2)
    training.run.finish()
    weights = [weight for group in training.optimizer.param_groups for weight in group["params"]]
    return [float(training.optimizer.state[weight]["step"]) for weight in weights]


def test_which_groups_are_the_worst_is_what_rank_0_found(tmp_path: Path) -> None:
    assert run_ranks(reset_worst_group, 2, tmp_path) == [[0.0, 4.0, 4.0, 4.0]] * 2


def fall_behind(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=plain, patience_seconds=0.2, checkpoint_every=0)
    training.steps(3)
    if rank == num_ranks - 1:
        time.sleep(1.0)
    training.steps(5)
    training.act(LrFactor(0.5))
    training.steps(3)
    training.run.finish()
    return {
        "steps": training.guard.last_step,
        "factor": training.guard._recovery._objects.learning_rate.factor,
        "disarmed": training.num_disarmed,
        "acks": [(ack.status, ack.reason) for ack in training.watch.acks()],
        "losses": len(training.watch.values("train/loss")),
    }


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_a_rank_that_falls_behind_disarms_and_nothing_else(tmp_path: Path, num_ranks: int) -> None:
    results = run_ranks(fall_behind, num_ranks, tmp_path)
    for result in results:
        assert (result["steps"], result["factor"], result["disarmed"]) == (11, 1.0, 1)
        assert result["losses"] == 11
    assert [status for status, _ in results[0]["acks"]] == ["refused"]
    assert "do not agree" in results[0]["acks"][0][1]


def wait_for_each_other(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, patience_seconds=1.0, checkpoint_every=0)
    training.steps(3)
    if rank == 1:
        time.sleep(2.0)
    training.act(LrFactor(0.5))
    training.steps(3)
    training.run.finish()
    return {"rate": training.rate, "disarmed": training.num_disarmed}


def test_ranks_that_share_gradients_may_take_their_time(tmp_path: Path) -> None:
    results = run_ranks(wait_for_each_other, 2, tmp_path)
    assert [result["disarmed"] for result in results] == [0, 0]
    assert results[0]["rate"] == results[1]["rate"] < 0.006


def cut_rate_between_rounds(rank: int, num_ranks: int, folder: Path, checkpoint_every: int) -> dict[str, Any]:
    agreement.ROUND_SECONDS = 1e9
    training = RankedTraining(rank, num_ranks, folder, checkpoint_every=checkpoint_every)
    training.steps(3)
    training.act(LrFactor(0.5))
    training.steps(9)
    rate, weights = training.rate, training.weights()
    training.run.finish()
    acks = [(ack.status, ack.step) for ack in training.watch.acks()]
    return {"rate": rate, "weights": weights, "disarmed": training.num_disarmed, "acks": acks}


@pytest.mark.parametrize(("checkpoint_every", "applied_at"), [(0, 10), (5, 5)])
def test_short_steps_share_a_round(tmp_path: Path, checkpoint_every: int, applied_at: int) -> None:
    """Rounds are at boundaries 1 and 9, and at those before a save."""
    first, second = run_ranks(cut_rate_between_rounds, 2, tmp_path, checkpoint_every)
    assert first.pop("acks") == [("applied", applied_at)]
    assert second.pop("acks") == []
    assert first == second
    assert (first["disarmed"], first["rate"] < 0.006) == (0, True)


def die(rank: int, num_ranks: int, folder: Path, wrap: str, dying_rank: int) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=plain if wrap == "plain" else data_parallel)
    training.steps(3)
    if rank == dying_rank:
        os._exit(1)
    failure = ""
    try:
        training.steps(5)
    except Exception:
        failure = traceback.format_exc()
    if not failure:
        training.act(LrFactor(0.5))
        training.steps(2)
    training.run.finish()
    return {
        "steps": training.guard.last_step,
        "failure": failure,
        "disarmed": training.num_disarmed,
        "rate": training.guard._recovery._objects.learning_rate.factor,
    }


@pytest.mark.parametrize("dying_rank", [0, 1])
def test_a_rank_that_dies_disarms_the_others(tmp_path: Path, dying_rank: int) -> None:
    results = run_ranks(die, 2, tmp_path, "plain", dying_rank)
    assert results[dying_rank] is DEAD
    assert results[1 - dying_rank] == {"steps": 10, "failure": "", "disarmed": 1, "rate": 1.0}


def test_what_a_death_does_to_training_is_up_to_torch(tmp_path: Path) -> None:
    first, _ = run_ranks(die, 2, tmp_path, "ddp", 1)
    assert "backward" in first["failure"]
    assert "agreement.py" not in first["failure"]


def die_in_an_action(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=plain, checkpoint_every=0)
    training.steps(3)
    if rank == 1:
        training.guard._recovery._effects.prepare = lambda _: os._exit(1)  # type: ignore[method-assign]
    training.act(LrFactor(0.5))
    training.steps(6)
    training.run.finish()
    return {
        "steps": training.guard.last_step,
        "acks": [ack.status for ack in training.watch.acks()],
        "rate": training.guard._recovery._objects.learning_rate.factor,
    }


def test_a_rank_that_dies_in_an_action_keeps_the_others_from_it(tmp_path: Path) -> None:
    first, second = run_ranks(die_in_an_action, 2, tmp_path)
    assert (first, second) == ({"steps": 9, "acks": ["refused"], "rate": 1.0}, DEAD)


def fail_at(rank: int, num_ranks: int, folder: Path, where: str) -> dict[str, Any]:
    patience: dict[str, float] = {}
    if where == "taking too long":
        ballots.VOTE_PATIENCE, patience = 5.0, {"patience_seconds": 0.1}
    training = RankedTraining(rank, num_ranks, folder, **patience)
    training.steps(5)
    training.saved()
    training.steps(2)
    name = training.checkpoint_at(5)
    if rank == 1:
        _sabotage(training, where, name)
    training.act(SkipRange(6), Rollback(name, 5), LrFactor(0.5))
    training.steps(4)
    training.run.finish()
    return {
        "steps": training.guard.last_step,
        "weights": training.weights(),
        "factor": training.guard._recovery._objects.learning_rate.factor,
        "skipped": training.guard._recovery.lineage.skipped,
        "intents": training.guard._recovery.lineage.intents,
        "disarmed": training.num_disarmed,
        "kept": [manifest.step for manifest in training.guard._recovery._files.manifests()],  # type: ignore[union-attr]
        "acks": [(ack.status, ack.reason) for ack in training.watch.acks()],
    }


def _sabotage(training: RankedTraining, where: str, name: str) -> None:
    recovery = training.guard._recovery
    if where == "its file":
        assert recovery._files is not None
        path = recovery._files.data_path(name)
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    elif where == "restoring":
        real, calls = training.optimizer.load_state_dict, []

        def failing(state: dict[str, Any]) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("no room")
            real(state)

        training.optimizer.load_state_dict = failing  # type: ignore[method-assign]
    else:
        prepare = recovery._effects.prepare

        def slow(latched: Any) -> Any:
            time.sleep(1.5)
            return prepare(latched)

        recovery._effects.prepare = slow  # type: ignore[method-assign]


REASONS = {"its file": "SHA-256", "restoring": "no room", "taking too long": "do not agree"}


@pytest.fixture(scope="module")
def unhurt(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return run_ranks(steps_only, 2, tmp_path_factory.mktemp("unhurt"), 11)


@pytest.mark.parametrize("where", REASONS)
def test_one_rank_that_cannot_keeps_all_from_it(tmp_path: Path, unhurt: list[Any], where: str) -> None:
    results = run_ranks(fail_at, 2, tmp_path, where)
    ((status, reason),) = results[0]["acks"]
    assert (status, REASONS[where] in reason) == ("refused", True)
    for result in results:
        assert (result["steps"], result["factor"], result["skipped"], result["intents"]) == (11, 1.0, [], [])
        assert result["weights"] == unhurt[0]
        assert result["disarmed"] == (where == "taking too long")
        assert result["kept"] == ([10] if where == "its file" else [5, 10])  # damaged on one rank, set aside on all


def steps_only(rank: int, num_ranks: int, folder: Path, number: int) -> list[Any]:
    training = RankedTraining(rank, num_ranks, folder)
    training.steps(number)
    training.run.finish()
    return training.weights()


def first_life(rank: int, num_ranks: int, folder: Path, wrap: str) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=WRAPS[wrap])
    training.steps(5)
    training.saved()
    training.act(SkipRange(4), LrFactor(0.5))
    training.steps(5)
    training.saved()
    training.steps(3)
    training.run.finish()
    return {"losses": training.losses, "weights": training.weights(), "attempt": training.run.attempt}


def second_life(rank: int, num_ranks: int, folder: Path, wrap: str) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=WRAPS[wrap], resume=True)
    resumed = training.guard.last_step
    training.steps(3)
    training.run.finish()
    return {
        "resumed": resumed,
        "losses": training.losses,
        "weights": training.weights(),
        "factor": training.guard._recovery._objects.learning_rate.factor,
        "skipped": training.guard._recovery.lineage.skipped,
        "attempt": training.run.attempt,
    }


@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_all_ranks_resume_where_they_were(tmp_path: Path, wrap: str) -> None:
    first = run_ranks(first_life, 2, tmp_path, wrap)
    second = run_ranks(second_life, 2, tmp_path, wrap)
    for before, after in zip(first, second, strict=True):
        assert (after["resumed"], after["factor"]) == (10, 0.5)
        assert [(each.first, each.last) for each in after["skipped"]] == [(4, 6)]
        assert after["losses"] == {step: before["losses"][step] for step in (11, 12, 13)}
        assert after["weights"] == before["weights"]
        assert after["attempt"] == second[0]["attempt"] > before["attempt"]


def keep_the_healthy(rank: int, num_ranks: int, folder: Path) -> list[int]:
    training = RankedTraining(rank, num_ranks, folder)
    training.steps(5)
    training.saved()
    if rank == 0:
        training.watch.health(training.checkpoint_at(5), 5)
        control = training.run.control
        assert control is not None
        await_(lambda: control.health, "health")
    for _ in range(5):
        training.steps(5)
        training.saved()
    training.run.finish()
    files = training.guard._recovery._files
    assert files is not None
    return [manifest.step for manifest in files.manifests()]


def test_every_rank_keeps_its_part_of_the_healthy_checkpoint(tmp_path: Path) -> None:
    assert run_ranks(keep_the_healthy, 2, tmp_path) == [[5, 20, 25, 30]] * 2


def apart(rank: int, num_ranks: int, folder: Path, wrap: str) -> list[str]:
    training = RankedTraining(rank, num_ranks, folder / f"host-{rank}", wrap=WRAPS[wrap])
    training.steps(2)
    training.run.finish()
    return [effect for each in training.watch.events(Started) for effect in each.event.effects]  # type: ignore[union-attr]


@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_only_who_needs_rank_0s_files_has_to_see_them(tmp_path: Path, wrap: str) -> None:
    effects, _ = run_ranks(apart, 2, tmp_path, wrap)
    assert {"lr_factor", "skip_range"} < set(effects)
    assert ("rollback" in effects) == (wrap == "fsdp2")


def count_looks(rank: int, num_ranks: int, folder: Path) -> tuple[int, int]:
    training = RankedTraining(rank, num_ranks, folder)
    training.steps(2)
    with Counting() as guarded:
        training.steps(10)
    training.run.finish()
    model = data_parallel(torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters())
    with Counting() as plainly:
        for _ in range(10):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    key = "aten._local_scalar_dense.default"
    return guarded.counts[key], plainly.counts[key] + 10  # a test's own look at the loss


def test_agreement_adds_no_synchronisation(tmp_path: Path) -> None:
    for guarded, plainly in run_ranks(count_looks, 2, tmp_path):
        assert guarded <= plainly


def wrongly_announced(rank: int, num_ranks: int, folder: Path, what: str) -> dict[str, Any]:
    settings = {"accumulate": 1 + rank} if what == "settings" else {}
    training = RankedTraining(0 if what == "rank" else rank, num_ranks, folder, wrap=plain, **settings)
    training.steps(4)
    training.run.finish()
    started = training.watch.events(Started)
    return {"effects": [each.event.effects for each in started], "disarmed": training.num_disarmed}  # type: ignore[union-attr]


@pytest.mark.parametrize("what", ["rank", "settings"])
def test_ranks_that_do_not_match_only_publish(tmp_path: Path, what: str) -> None:
    for result in run_ranks(wrongly_announced, 2, tmp_path, what):
        assert result["disarmed"] == 1
        assert all(effects == [] for effects in result["effects"])


def clipped(rank: int, num_ranks: int, folder: Path, wrap: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, options in OPTIONS.items():
        clip = make(name, **options)
        training = RankedTraining(rank, num_ranks, folder / name, wrap=WRAPS[wrap], clip=clip)
        training.steps(4)
        training.act(ClipAdjust(0.5))
        training.steps(3)
        state = copy.deepcopy(clip.state_dict())
        training.step_with(math.nan, on_rank=1)
        training.run.finish()
        learnt = all(torch.equal(a, b) for a, b in zip(tensors_of(state), tensors_of(clip.state_dict()), strict=True))
        found[name] = {
            "weights": training.weights(),
            "factor": clip.factor,
            "skipped": (training.guard.num_skipped, learnt),
            "norms": [training.watch.values("train/grad_norm")[step] for step in range(1, 8)],
        }
    return found


@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_every_clipper_does_the_same_on_every_rank(tmp_path: Path, wrap: str) -> None:
    results = run_ranks(clipped, 2, tmp_path, wrap)
    for name in OPTIONS:
        first, second = (result[name] for result in results)
        assert first == second
        assert (first["factor"], first["skipped"]) == (0.5, (1, True))


def explode(rank: int, num_ranks: int, folder: Path, wrap: str, on_device: bool) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=WRAPS[wrap], reflex=SkipExplosions(max_skips=1))
    if on_device:
        delayed(training)
    training.steps(30)
    before = training.weights()
    inputs, targets = next(training._batches)
    loss = torch.nn.functional.mse_loss(training.model(inputs), targets)
    training.guard.backward(loss * (1e4 if rank == 1 else 1.0))  # whose gradient is everybody's
    training.guard.step()
    unhurt = training.weights() == before
    training.steps(3)
    training.run.finish()
    bad = [(each.step, each.event.num_in_a_row) for each in training.watch.events(BadGradient)]  # type: ignore[union-attr]
    return {"unhurt": unhurt, "skipped": training.guard.num_skipped, "weights": training.weights(), "bad": bad}


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_an_explosion_on_one_rank_is_left_out_by_all(tmp_path: Path, wrap: str, on_device: bool) -> None:
    results = run_ranks(explode, 2, tmp_path, wrap, on_device)
    assert [(result["unhurt"], result["skipped"]) for result in results] == [(True, 1)] * 2
    assert results[0]["weights"] == results[1]["weights"]
    assert [result["bad"] for result in results] == [[(31, 1)], []]


def norms(rank: int, num_ranks: int, folder: Path, wrap: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for clip in (None, 0.05):
        training = RankedTraining(rank, num_ranks, folder / str(clip), wrap=WRAPS[wrap], clip=clip, update_norm="full")
        training.steps(4)
        training.run.finish()
        watch = training.watch
        scopes = {batch.grad_norm_scope for batch in watch.batches()}
        values = {name: watch.values(f"train/{name}_norm") for name in ("grad", "update")}
        found.append({"scopes": scopes, **values})
    return found


def test_norms_are_of_the_whole_model_on_every_rank(tmp_path: Path) -> None:
    whole = run_ranks(norms, 2, tmp_path / "ddp", "ddp")
    for rank in [*run_ranks(norms, 2, tmp_path / "fsdp2", "fsdp2"), *run_ranks(norms, 2, tmp_path / "hsdp", "hsdp")]:
        for result, expected in zip(rank, whole[0], strict=True):
            assert result["scopes"] == {"global"}
            for name in ("grad", "update"):
                assert result[name] == pytest.approx(expected[name], rel=1e-4)


def clipped_by_the_loop(rank: int, num_ranks: int, folder: Path) -> tuple[list[float], list[float]]:
    """The norms that torch clipped at, and those that the run published."""
    torch.manual_seed(0)
    model = fully_sharded(torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    watch = FakeWatch()
    run = make_ranked_run(watch, rank, num_ranks)
    hooks = Hooks(run, model, optimizer, checkpoints=None)
    clipped = []
    for _ in range(3):
        loss = model(torch.ones(2, 4)).square().sum()
        hooks.add_loss(loss)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        hooks.see_gradients(norm)
        clipped.append(norm.full_tensor().item())
        optimizer.step()
        optimizer.zero_grad()
    run.finish()
    return clipped, list(watch.values("train/grad_norm").values())


def test_a_sharded_loop_may_tell_the_norm_that_it_clipped_at(tmp_path: Path) -> None:
    (clipped, told), _ = run_ranks(clipped_by_the_loop, 2, tmp_path)
    assert min(clipped) > 0.0
    assert told == pytest.approx(clipped)


def total_norms(rank: int, num_ranks: int, folder: Path, wrap: str) -> tuple[bool, float, float]:
    torch.manual_seed(rank)
    model = WRAPS[wrap](torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Linear(16, 3)))
    model(torch.randn(8, 4)).square().sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return is_sharded(norm), float(whole_norm(norm)), float(norm.full_tensor())  # type: ignore[attr-defined]


@pytest.mark.parametrize(("wrap", "num_ranks"), [("fsdp2", 2), ("hsdp", 4)])
def test_a_norm_over_shards_is_put_together_as_torch_does_it(tmp_path: Path, wrap: str, num_ranks: int) -> None:
    for was_sharded, own, torchs in run_ranks(total_norms, num_ranks, tmp_path, wrap):
        assert was_sharded
        assert own == torchs > 0.0
