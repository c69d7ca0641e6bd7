"""Keras' ``fit`` on JAX, without torch: ``python -m holter.producers.examples.keras_fit --fault lr-burst``."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

from holter.producers.examples import jax_task as task
from holter.producers.integrations.keras import HolterCallback

NUM_EPOCHS = 60


class LrBurst(keras.callbacks.Callback):
    """The fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault, self._num_done = fault, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        factor = task.burst(self._fault, self._num_done + 1) / task.burst(self._fault, self._num_done)
        self._num_done += 1
        if factor != 1.0:
            optimizer = self.model.optimizer
            optimizer.learning_rate = float(optimizer.learning_rate) * factor


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(1e-3, beta_2=0.98), "mse")
    inputs, targets = (np.asarray(each) for each in task.make_data(1, 2560))
    # A hundred steps this short may pass before an action is here: the copy to go back to must still be kept.
    holter = HolterCallback(
        project="examples", config=vars(options), allow={"lr_factor", "rollback"}, checkpoint_every=25, keep=12
    )
    callbacks = [LrBurst(options.fault), holter]
    model.fit(inputs, targets, batch_size=256, epochs=NUM_EPOCHS, verbose=0, callbacks=callbacks)
    print(f"{holter.last_step} steps, final loss {model.evaluate(inputs, targets, verbose=0):.4f}")


if __name__ == "__main__":
    main()
