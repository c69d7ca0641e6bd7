"""Holter in a JAX loop, without torch: ``python -m holter.producers.examples.jax_loop --fault lr-burst``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from holter import producers
from holter.producers.examples import jax_task as task
from holter.producers.integrations.jax_norms import gradient_norm, update_norm
from holter.producers.memory_checkpoints import MemoryCheckpoints
from holter.schemas.control import LrFactor, Rollback


@jax.jit
def train_step(weights: Any, moments: Any, batch: Any, step: int, rate: float) -> tuple[Any, Any, dict[str, jax.Array]]:
    loss, grads = jax.value_and_grad(task.loss_of)(weights, *batch)
    updates, moments = task.adam(grads, moments, step, rate)
    moved = jax.tree.map(jnp.subtract, weights, updates)
    norms = {"train/grad_norm": gradient_norm(grads), "train/update_norm": update_norm(weights, moved)}
    return moved, moments, {"train/loss": loss, **norms}


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    weights = task.make_weights()
    moments = (jax.tree.map(jnp.zeros_like, weights),) * 2
    run = producers.init(project="examples", config=vars(options), allow={"lr_factor", "rollback"})
    checkpoints = MemoryCheckpoints[Any](run, keep=18)  # hundreds of steps this short may pass before an action is here
    step, num_done, factor, climb = 0, 0, 1.0, 0.0
    while step < task.NUM_STEPS:
        step, num_done, factor = step + 1, num_done + 1, min(1.0, factor + climb)
        rate = task.LEARNING_RATE * (1.0 - step / task.NUM_STEPS) * factor
        batch = task.make_data(num_done, 256)
        weights, moments, measured = train_step(
            weights, moments, batch, step, rate * task.burst(options.fault, num_done)
        )
        run.log({**measured, "optim/lr": rate}, step, commit=True)
        if checkpoints.is_due(step):
            checkpoints.keep(step, (weights, moments))
        for action in run.poll_actions():
            with action as a:
                done: dict[str, tuple[float, float]] = {}
                for effect in a.effects:
                    if isinstance(effect, Rollback):
                        (weights, moments), done["rollback"] = checkpoints.restore(effect), (step, effect.step)
                        step = effect.step
                    elif isinstance(effect, LrFactor):
                        done["lr_factor"], factor = (factor, effect.factor), effect.factor
                        climb = (1.0 - factor) / effect.ramp_steps if effect.ramp_steps else 0.0
                a.done(**done)
    run.finish()
    print(f"{num_done} steps done, final loss {task.loss_of(weights, *task.make_data(0, 4096)):.4f}")


if __name__ == "__main__":
    main()
