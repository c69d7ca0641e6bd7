"""A small model in Keras' fit, on JAX."""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

from holter.producers.examples.keras_fit import LrBurst

rng = np.random.default_rng(0)
inputs = rng.normal(size=(2560, 8))
labels = np.tanh(inputs @ rng.normal(size=(8, 4))).sum(1, keepdims=True)
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(1e-3), "mse")
callbacks = [LrBurst("lr-burst" if "lr-burst" in sys.argv else "none")]
model.fit(inputs, labels, batch_size=256, epochs=50, verbose=0, callbacks=callbacks)
print("final loss", model.evaluate(inputs, labels, verbose=0))
