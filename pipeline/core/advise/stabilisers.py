"""What can be advised, how it is switched on, and what has to be known of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stabiliser:
    """``arm`` is its name in the table that ``make stabilisers`` measures, empty where it has no row."""

    name: str
    how: str
    limits: str = ""
    arm: str = ""


GLOBALGC = Stabiliser(
    "GlobalGC", "Guard(…, clip=1.0)", "one tensor's spike takes the step from all the others", "globalgc"
)
AGC = Stabiliser(
    "AGC",
    'Guard(…, clip=clip.make("agc", exclude=head.parameters()))',
    "made for SGD; under Adam it bounds gradients, not updates",
    "agc",
)
ADAGC = Stabiliser(
    "AdaGC",
    'Guard(…, clip=clip.make("adagc"))',
    "where norms vary by 10 % or more, as in small batches, it clips half of all steps: look at its clip rate",
    "adagc",
)
ZCLIP = Stabiliser(
    "ZClip", 'Guard(…, clip=clip.make("zclip"))', "takes norms for normal: some percent of clips are false", "zclip"
)
CLIPPY = Stabiliser(
    "Clippy",
    'optim.make("clippy", parameters, lr=…)',
    "bounds updates only: a gradient spike still enters the moments",
    "clippy",
)
SPAM = Stabiliser(
    "SPAM",
    'optim.make("spam", parameters, lr=…)',
    "instead of Adam; no help against data or hardware that stays bad",
    "spam",
)
MSIGN = Stabiliser(
    "MSign",
    'optim.make("msign", parameters, base=…, every=100, lr=…)',
    "its authors measured 4.6 to 6.7 % of throughput at 1B and 3B",
    "msign",
)
CHECKFREE = Stabiliser(
    "CheckFree", "holter.producers.torch.checkfree", "rebuilds one lost pipeline stage; not two neighbours"
)
ROLLBACK = Stabiliser(
    "rollback",
    'Guard(…, checkpoints=…, allow={"nan_guard", "rollback", "skip_range"})',
    "needs checkpoints, and data that can be gone back in",
    "rollback",
)
NAN_GUARD = Stabiliser("nan_guard", "Guard's default", "a step with a non-finite gradient is left out, and counted")
SKIP = Stabiliser(
    "data skip", 'Guard(…, allow={…, "skip_range"})', "undoes nothing: it keeps the same data from being met again"
)
MONITOR = Stabiliser("monitor", "Guard(…): watching alone is what it does unless more is allowed")
DETAILED_LOGS = Stabiliser(
    "detailed logs", "GradientWatch(model.named_parameters(), …) beside the Guard", "one more pass over the gradients"
)
LAYERED_DETECTION = Stabiliser(
    "layered detection",
    "`holter jobs submit watch` for all runs, Guard's own reflexes, and comparison of ranks",
    "the detectors are statistical: what is learned has to beat them first",
)
CHECKPOINTS = Stabiliser("frequent checkpoints", "Guard(…, checkpoint_every=…)")
