"""Readings of single tensors: the same as by plain Python, and on CUDA the same as on the CPU without waiting."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import pytest
import torch

from holter.pipeline.core.stats import ordered
from holter.producers.torch import Guard
from holter.producers.torch.on_device import GradientWatch, TensorReadings
from holter.producers.torch.point_test import PointSettings, PointTest
from tests.producers.torch.loops import make_model, make_run
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch

SHAPES = {"wide": (40, 30), "small": (7,), "scalar": ()}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class PlainTest:
    """The rule of one tensor, in float64 and without torch."""

    def __init__(self, settings: PointSettings) -> None:
        self._settings = settings
        self._logs: deque[float] = deque(maxlen=settings.window)

    def judge(self, norm: float) -> tuple[float, bool]:
        settings = self._settings
        values = [log for log in self._logs if not math.isnan(log)]
        if not 0.0 < norm < math.inf:
            self._logs.append(math.nan)
            return 0.0, False
        log = math.log(norm)
        if len(values) < settings.min_values:
            self._logs.append(log)
            return 0.0, False
        middle = ordered.median(sorted(values))
        deviation = ordered.median(sorted(abs(value - middle) for value in values))
        scale = max(settings.min_scale, 1.4826 * deviation)
        score = (log - middle) / scale
        self._logs.append(min(log, middle + settings.score * scale))
        return score, score > settings.score and log - middle >= math.log(settings.ratio)


def tape(num_steps: int, num_norms: int) -> Iterator[torch.Tensor]:
    """Norms with spikes, zeros and what is no number among them."""
    generator = torch.Generator().manual_seed(7)
    for step in range(num_steps):
        norms = (0.3 * torch.randn(num_norms, generator=generator)).exp()
        if step % 17 == 16:
            norms[step % num_norms] = (50.0, 0.0, math.nan, math.inf)[step // 17 % 4]
        yield norms


def test_all_tensors_at_once_are_judged_as_each_by_itself() -> None:
    settings = PointSettings(window=31, min_values=8)
    test, plain = PointTest(5, torch.device("cpu"), settings), [PlainTest(settings) for _ in range(5)]
    num_far = 0
    for norms in tape(200, 5):
        judged = test.judge(norms)
        expected = [each.judge(norm) for each, norm in zip(plain, norms.tolist(), strict=True)]
        assert judged.scores.tolist() == pytest.approx([score for score, _ in expected], abs=2e-4)
        assert judged.is_far.tolist() == [is_far for _, is_far in expected]
        num_far += sum(judged.is_far.tolist())
    assert num_far == 3


def test_a_spike_does_not_lift_its_own_reference() -> None:
    test = PointTest(1, torch.device("cpu"), PointSettings(window=32, min_values=8))
    for _ in range(20):
        test.judge(torch.ones(1))
    assert all(test.judge(torch.full((1,), 1e4)).is_far.item() for _ in range(10))


def test_it_goes_on_bit_for_bit_from_its_state() -> None:
    first, second = (PointTest(3, torch.device("cpu")) for _ in range(2))
    norms = list(tape(120, 3))
    for each in norms[:70]:
        first.judge(each)
    second.load_state_dict(first.state_dict())
    for each in norms[70:]:
        assert torch.equal(first.judge(each).scores, second.judge(each).scores)
    with pytest.raises(ValueError, match="other tensors"):
        PointTest(4, torch.device("cpu")).load_state_dict(first.state_dict())


def gradients(step: int, device: str) -> dict[str, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(step)
    made: dict[str, torch.Tensor | None] = {
        name: torch.randn(shape, generator=generator).to(device) for name, shape in SHAPES.items()
    }
    wide = made["wide"]
    assert wide is not None
    if step == 30:
        wide[3, :4] = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    if step == 35:
        wide *= 1000.0
    if step % 2:
        made["scalar"] = None
    return made


def readings_on(device: str, num_steps: int = 40) -> list[TensorReadings]:
    parameters = {name: torch.nn.Parameter(torch.zeros(shape, device=device)) for name, shape in SHAPES.items()}
    taken: list[TensorReadings] = []
    watch = GradientWatch(parameters.items(), taken.append)
    for step in range(num_steps):
        for name, gradient in gradients(step, device).items():
            parameters[name].grad = gradient
        watch.measure(step)
    watch.flush()
    return taken


def test_norms_counts_and_spikes_are_told_by_name() -> None:
    taken = readings_on("cpu")
    assert [readings.step for readings in taken] == list(range(40))
    for readings in taken[::7]:
        for norm, gradient in zip(readings.norms, gradients(readings.step, "cpu").values(), strict=True):
            assert norm == pytest.approx(0.0 if gradient is None else float(gradient.norm()), rel=1e-6)
    assert taken[30].nonfinite() == {"wide": 3}
    assert all(not readings.nonfinite() for readings in taken if readings.step != 30)
    assert {readings.step: list(readings.far()) for readings in taken if readings.far()} == {35: ["wide"]}


def test_its_readings_join_the_guarded_step_that_they_are_of() -> None:
    watch = FakeWatch()
    run, model = make_run(watch), make_model()
    guard = Guard(run, model, torch.optim.AdamW(model.parameters(), lr=0.01), checkpoints=None)
    readings = GradientWatch(model.named_parameters(), lambda taken: run.log(taken.metrics()))
    for step in range(1, 6):
        inputs = torch.full((8, 4), math.nan if step == 4 else 1.0)
        guard.backward(model(inputs).square().mean())
        readings.measure(step)
        guard.step()
    run.finish()
    num_values = sum(parameter.numel() for parameter in model.parameters())
    expected = {step: float(num_values) if step == 4 else 0.0 for step in range(1, 6)}
    assert watch.values("gradient/num_nonfinite") == expected
    assert watch.values("gradient/worst_score").keys() == expected.keys()
    assert guard.num_skipped == 1


@pytest.mark.cuda
@needs_cuda
def test_a_device_says_what_the_cpu_says() -> None:
    for here, there in zip(readings_on("cpu"), readings_on("cuda"), strict=True):
        assert there.step == here.step
        assert there.norms == pytest.approx(here.norms, rel=1e-5, nan_ok=True)
        assert there.num_nonfinite == here.num_nonfinite
        assert there.scores == pytest.approx(here.scores, abs=1e-3)
        assert there.is_far == here.is_far


@pytest.mark.cuda
@needs_cuda
def test_a_device_is_never_waited_for() -> None:
    parameters = [(str(at), torch.nn.Parameter(torch.zeros(256, 256, device="cuda"))) for at in range(50)]
    for _, parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    taken: list[TensorReadings] = []
    watch = GradientWatch(parameters, taken.append)
    watch.measure(0)  # the first one pins its memory
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(1, 20):
            watch.measure(step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    watch.flush()
    assert [readings.step for readings in taken] == list(range(20))


@pytest.mark.cuda
@needs_cuda
def test_its_share_of_a_pass_over_the_gradients_is_told(record_property: pytest.RecordProperty) -> None:
    """Nothing is asserted of time; ``make device-check ARGS=-s`` shows it."""
    parameters = [(str(at), torch.nn.Parameter(torch.zeros(1024, 1024, device="cuda"))) for at in range(100)]
    for _, parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    watch = GradientWatch(parameters, lambda readings: None)
    plain = milliseconds(lambda: torch.nn.utils.get_total_norm([p.grad for _, p in parameters if p.grad is not None]))
    watched = milliseconds(lambda: watch.measure(0))
    watch.flush()
    record_property("watch_over_total_norm", watched / plain)
    print(f"GradientWatch of 100 tensors of 1M: {watched:.2f} ms, the total norm alone {plain:.2f} ms")


def milliseconds(work: object) -> float:
    assert callable(work)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        work()
    start.record()
    for _ in range(20):
        work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 20
