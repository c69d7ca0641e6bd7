"""Keras' fit on JAX, with a bus in memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
pytest.importorskip("jax")
if keras.backend.backend() != "jax":
    pytest.skip("Keras was imported with another backend", allow_module_level=True)

from holter import producers  # noqa: E402
from holter.producers.integrations.keras import HolterCallback  # noqa: E402
from holter.producers.integrations.keras_steps import MeasuredSteps  # noqa: E402
from holter.producers.run import Run  # noqa: E402
from holter.schemas.control import Effect, LrFactor, Rollback, Stop  # noqa: E402
from holter.schemas.telemetry import EffectReport, Finished, Started  # noqa: E402
from tests.producers.watch import KEYRING, FakeWatch, await_  # noqa: E402

pytestmark = pytest.mark.frameworks
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(24, 3)).astype("float32")
TARGETS = RNG.normal(size=(24, 1)).astype("float32")
RATE = 0.05
BATCH = 4
ALL = frozenset({"lr_factor", "rollback", "stop"})


def make_model(optimizer: Any = None, **settings: Any) -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(optimizer or keras.optimizers.SGD(RATE), "mse", **settings)
    return model


def fit(model: Any, *callbacks: Any, epochs: int = 1) -> Any:
    return model.fit(
        INPUTS, TARGETS, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)
    )


def make_run(watch: FakeWatch, allow: Any = ALL) -> Run:
    return producers.init(watch.project, watch.run, bus=watch.bus, keyring=KEYRING, allow=allow, environ={})


def by_hand(num_steps: int) -> tuple[list[float], list[float]]:
    """Loss and gradient norm of each step of gradient descent."""
    weight, losses, norms = np.ones((3, 1)), [], []
    for step in range(num_steps):
        rows = slice(step * BATCH % 24, step * BATCH % 24 + BATCH)
        error = INPUTS[rows] @ weight - TARGETS[rows]
        slope = 2.0 * INPUTS[rows].T @ error / BATCH
        losses.append(float(np.mean(error**2)))
        norms.append(float(np.linalg.norm(slope)))
        weight -= RATE * slope
    return losses, norms


class At(keras.callbacks.Callback):  # type: ignore[misc]
    """Sends effects after a batch that Holter has not yet ended, and notes what the model holds after each."""

    def __init__(self, watch: FakeWatch, run: Run, batch: int, *effects: Effect) -> None:
        super().__init__()
        self.kernels: list[Any] = []
        self.rates: list[float] = []
        self._watch, self._run, self._batch, self._effects = watch, run, batch, effects

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.kernels.append(np.array(self.model.trainable_variables[0].value))
        self.rates.append(float(self.model.optimizer.learning_rate))
        if batch == self._batch:
            attempt = self._watch.attempt()
            effects = [
                Rollback(f"{attempt}-{each.step:09d}", each.step) if isinstance(each, Rollback) else each
                for each in self._effects
            ]
            self._watch.act(effects)
            control = self._run.control
            assert control is not None
            await_(lambda: control.is_pending and control.is_armed, "latched")


def test_values_are_those_of_each_step_and_the_training_is_as_without() -> None:
    watch, worn, plain = FakeWatch(), make_model(), make_model()
    history = fit(worn, HolterCallback(run=make_run(watch)), epochs=2).history
    assert history["loss"] == pytest.approx(fit(plain, epochs=2).history["loss"], rel=1e-5)
    assert list(history) == ["loss"]
    np.testing.assert_array_equal(worn.get_weights()[0], plain.get_weights()[0])
    losses, norms = by_hand(12)
    assert list(watch.values("train/loss")) == list(range(1, 13))
    assert list(watch.values("train/loss").values()) == pytest.approx(losses, rel=1e-4)
    assert list(watch.values("train/grad_norm").values()) == pytest.approx(norms, rel=1e-4)
    assert list(watch.values("train/update_norm").values()) == pytest.approx([RATE * norm for norm in norms], rel=1e-4)
    assert list(watch.values("optim/lr").values()) == pytest.approx([RATE] * 12)
    (started,) = watch.events(Started)
    assert isinstance(started.event, Started)
    assert started.event.effects == sorted(ALL)
    assert len(watch.events(Finished)) == 1
    assert "train_step" not in vars(worn)


def test_clipping_hides_nothing() -> None:
    watch = FakeWatch()
    fit(make_model(keras.optimizers.SGD(RATE, global_clipnorm=0.01)), HolterCallback(run=make_run(watch)))
    assert watch.values("train/grad_norm")[1] == pytest.approx(by_hand(1)[1][0], rel=1e-4)
    assert watch.values("train/update_norm")[1] == pytest.approx(RATE * 0.01, rel=1e-3)


def test_a_change_between_two_steps_is_not_the_next_ones_update() -> None:
    class Doubles(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 3:
                (kernel,) = self.model.trainable_variables
                kernel.assign(2.0 * np.array(kernel.value))

    watch = FakeWatch()
    fit(make_model(), Doubles(), HolterCallback(run=make_run(watch)))
    norms, moved = watch.values("train/grad_norm"), watch.values("train/update_norm")
    assert list(moved.values()) == pytest.approx([RATE * norm for norm in norms.values()], rel=1e-4)


def test_a_rollback_brings_weights_and_optimizer_back_and_goes_on() -> None:
    watch, model = FakeWatch(), make_model(keras.optimizers.Adam(RATE))
    run = make_run(watch)
    holter = HolterCallback(run=run, checkpoint_every=2)
    spy = At(watch, run, 4, Rollback("", 2))
    fit(model, spy, holter)
    np.testing.assert_array_equal(spy.kernels[5], spy.kernels[2])
    assert int(model.optimizer.iterations) == holter.last_step == 3
    (ack,) = watch.acks()
    assert (ack.status, list(ack.effects)) == ("applied", [EffectReport("rollback", 5.0, 2.0)])
    assert list(watch.values("train/loss", run.attempt)) == [3]


def test_the_rate_is_cut_and_climbs_back() -> None:
    watch, model = FakeWatch(), make_model()
    run = make_run(watch)
    spy = At(watch, run, 1, LrFactor(0.5, ramp_steps=2))
    fit(model, spy, HolterCallback(run=run))
    assert spy.rates == pytest.approx([RATE, RATE, RATE / 2, RATE * 0.75, RATE, RATE])
    assert list(watch.acks()[0].effects) == [EffectReport("lr_factor", 1.0, 0.5)]


def test_it_stops_after_the_batch() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    holter = HolterCallback(run=run)
    fit(make_model(), At(watch, run, 2, Stop()), holter, epochs=3)
    assert holter.last_step == 3


def test_a_schedule_cannot_be_scaled_and_each_fit_is_a_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLTER_MODE", "disabled")
    schedule = keras.optimizers.schedules.ExponentialDecay(RATE, 10, 0.5)
    model, holter = make_model(keras.optimizers.SGD(schedule)), HolterCallback("tests", allow=ALL)
    names = []
    for _ in range(2):
        fit(model, holter)
        assert holter.run is not None
        names.append(holter.run.name)
    assert names[0] != names[1]
    assert "lr_factor is not possible: the learning rate is a schedule" in caplog.text


class OwnStep(keras.Sequential):  # type: ignore[misc]
    def train_step(self, *args: Any) -> Any:
        return super().train_step(*args)


def test_what_cannot_be_measured_is_told_in_one_line() -> None:
    own = OwnStep([keras.Input((3,)), keras.layers.Dense(1)])
    own.compile("sgd", "mse")
    with pytest.raises(ValueError, match="a train_step of its own"):
        MeasuredSteps(own, 1)
    with pytest.raises(ValueError, match="steps_per_execution=1"):
        MeasuredSteps(make_model(steps_per_execution=2), 1)
    twice = make_model()
    with pytest.raises(ValueError, match="one for each fit"):
        fit(twice, HolterCallback(run=make_run(FakeWatch())), HolterCallback(run=make_run(FakeWatch())))


class Interrupt(keras.callbacks.Callback):  # type: ignore[misc]
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise KeyboardInterrupt


def test_a_fit_that_was_interrupted_leaves_nothing_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLTER_MODE", "disabled")
    model, holter = make_model(), HolterCallback("tests")
    with pytest.raises(KeyboardInterrupt):
        fit(model, holter, Interrupt())
    watch = FakeWatch()
    fit(model, HolterCallback(run=make_run(watch)))
    fit(model, holter)
    assert len(watch.values("train/loss")) == holter.last_step == 6
    assert "train_step" not in vars(model)


def test_wrong_use_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match="give either project="):
        HolterCallback()
    with pytest.raises(ValueError, match="'skip_range' cannot be allowed to Keras' fit: lr_factor, rollback, stop can"):
        HolterCallback("tests", allow={"skip_range"})
    with pytest.raises(ValueError, match="leave allow= out"):
        HolterCallback(run=producers.init("tests", mode="disabled"), allow={"stop"})
