"""Whether 16-bit types can hold what they are given."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, fine, not_checked
from holter.producers.torch.preflight.probe import CannotTell
from holter.producers.torch.preflight.warmup import learning_rates

LOSS_SCALE, WEIGHTS, RANGE, EPSILON = "loss scale", "weight type", "activation range", "Adam's epsilon"
_LARGEST_HALF = 65504.0
_HEADROOM = 16.0
_NEGLIGIBLE_SHARE = 0.5
_DOMINATED = 10.0


def check(examined: Examined) -> Iterator[Finding]:
    yield _loss_scale(examined)
    yield _weights(examined)
    yield from _range(examined)
    yield _epsilon(examined)


def _loss_scale(examined: Examined) -> Finding:
    subject = examined.subject
    is_scaled = subject.scaler is not None and subject.scaler.is_enabled()
    if torch.float16 in subject.narrow_types():
        if is_scaled:
            return fine(LOSS_SCALE, f"float16 with a loss scale of {subject.scaler.get_scale():g}")
        if subject.optimizer is None:
            return not_checked(LOSS_SCALE, "float16, but no optimizer and scaler were given")
        why = "gradients below 6e-8 become zero, silently"
        fix = "use torch.amp.GradScaler, or bfloat16"
        return Finding(LOSS_SCALE, "serious", "float16 without a loss scale", 0.0, None, why, fix)
    if is_scaled:
        why = "it needs none: it only adds skipped steps, and norms that are scaled if read before unscale_"
        return Finding(LOSS_SCALE, "note", "a loss scale without float16", None, None, why, "leave the scaler out")
    return fine(LOSS_SCALE, "no float16: none is needed")


def _weights(examined: Examined) -> Finding:
    """How many weights an update of size lr, which is about Adam's, is less than half the spacing of."""
    subject = examined.subject
    trained = [each for each in subject.model.parameters() if each.requires_grad]
    narrow = [each for each in trained if each.dtype in (torch.float16, torch.bfloat16)]
    if not narrow:
        return fine(WEIGHTS, "weights and moments have 32 bits")
    if subject.optimizer is None or subject.betas() is None:
        return not_checked(WEIGHTS, "weights have 16 bits, and no optimizer of the Adam family was given")
    rate = max(learning_rates(subject.optimizer, subject.scheduler, min(20_000, subject.steps or 20_000)))
    num_lost = sum(int((each.detach().float().abs() * torch.finfo(each.dtype).eps / 2 > rate).sum()) for each in narrow)
    share = num_lost / sum(each.numel() for each in narrow)
    what = f"weights of 16 bits are trained at up to {rate:.3g}: {share:.0%} of them would not change by an update"
    why = "an update below half the distance to the next number is rounded away, so the weight stands still"
    fix = "keep weights and moments in float32 and compute under autocast, or round stochastically"
    return Finding(WEIGHTS, "serious" if share > _NEGLIGIBLE_SHARE else "warning", what, share, 0.0, why, fix)


def _range(examined: Examined) -> Iterator[Finding]:
    if torch.float16 not in examined.subject.narrow_types():
        return
    largest = examined.probe.largest_activation
    what = f"the largest value between layers is {largest:.3g}; float16 ends at {_LARGEST_HALF:g}"
    if largest < _LARGEST_HALF / _HEADROOM:
        yield fine(RANGE, what, largest, _LARGEST_HALF)
        return
    why = "the values between layers grow in training; above the limit they are infinite"
    yield Finding(RANGE, "serious", what, largest, _LARGEST_HALF, why, "use bfloat16")


def _epsilon(examined: Examined) -> Finding:
    """Wortsman et al. (2309.14322, 3.4): gradients that fall to ε train no more; a smaller one helps."""
    optimizer = examined.subject.optimizer
    if optimizer is None or examined.subject.betas() is None:
        return not_checked(EPSILON, "no optimizer of the Adam family was given")
    # biases may have no gradient by their place: a shift of all keys changes no attention
    matrices = {name for name, each in examined.subject.model.named_parameters() if each.dim() >= 2}
    try:
        rms = {name: value for name, value in examined.first_step.rms.items() if value > 0.0 and name in matrices}
    except CannotTell as error:
        return not_checked(EPSILON, str(error))
    epsilon = max(float(group.get("eps", 0.0)) for group in optimizer.param_groups)
    least = min(rms, key=lambda name: rms[name], default="")
    value = rms.get(least, 1.0)
    what = f"ε is {epsilon:g}; the smallest gradient of a matrix has root mean square {value:.2g} ({least})"
    if epsilon * _DOMINATED <= value:
        return fine(EPSILON, what, value, epsilon)
    why = "where a gradient is not well above ε its updates shrink with it, and gradients fall during training"
    return Finding(EPSILON, "warning", what, value, epsilon, why, "lower eps, to 1e-15 if need be")
