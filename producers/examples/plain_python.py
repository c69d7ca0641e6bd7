"""Holter in a loop of plain Python, with no framework: ``python -m holter.producers.examples.plain_python``.

It fits a line by stochastic gradient descent. ``--fault lr-burst`` multiplies the learning rate for a few steps.
"""

from __future__ import annotations

import math
import random
import sys

from holter import producers
from holter.schemas.control import LrFactor, Stop

MAX_STEPS = 600
BURST = range(400, 405)


def gradient(weights: list[float], rng: random.Random) -> tuple[float, list[float]]:
    """Of the mean squared error of a batch of sixteen."""
    loss, slope, offset = 0.0, 0.0, 0.0
    for _ in range(16):
        x = rng.gauss(0.0, 1.0)
        error = weights[0] * x + weights[1] - (3.0 * x - 1.0) + rng.gauss(0.0, 0.1)
        loss, slope, offset = loss + error**2 / 16, slope + error * x / 8, offset + error / 8
    return loss, [slope, offset]


def main(fault: str | None = None) -> None:
    rng, weights = random.Random(0), [0.0, 0.0]
    base, factor, stopped = 0.05, 1.0, False
    run = producers.init(project="examples", config={"lr": base}, allow={"lr_factor", "stop"})
    for step in range(1, MAX_STEPS + 1):
        loss, slopes = gradient(weights, rng)
        rate = base * factor * (60.0 if fault == "lr-burst" and step in BURST else 1.0)
        weights = [weight - rate * slope for weight, slope in zip(weights, slopes, strict=True)]
        norm = math.hypot(*slopes)
        run.log({"train/loss": loss, "train/grad_norm": norm, "train/update_norm": rate * norm, "optim/lr": rate}, step)
        for action in run.poll_actions():
            with action as a:
                before = factor
                for effect in a.effects:
                    factor = effect.factor if isinstance(effect, LrFactor) else factor
                    stopped = stopped or isinstance(effect, Stop)
                a.done(before, factor)
        if stopped:
            break
    run.finish()
    print(f"{step} steps, loss {loss:.4f}")


if __name__ == "__main__":
    main("lr-burst" if "lr-burst" in sys.argv else None)
