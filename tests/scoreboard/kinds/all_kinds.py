"""The corpus "unlike kinds"."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoreboard.faults import DataBurst, Divergence, Explosion, HealingSpike, NotANumber, SlowDivergence, Zero
from tests.scoreboard.kinds import generative, reinforcement, schedules, speech, tabular, vision
from tests.scoreboard.kinds.kind import USUAL_HARMS, Harm, Kind
from tests.scoreboard.truth import LabelledRun

SEED = 8_000

WITH_NORMS: tuple[Harm, ...] = (
    *USUAL_HARMS,
    ((0.3, Explosion()), (0.6, Explosion(num_rows=3, times=200.0))),
    ((0.6, SlowDivergence()),),
)
NEAR_ZERO: tuple[Harm, ...] = (
    ((0.35, HealingSpike(relative=1.5)), (0.7, Divergence(relative=2.0))),
    ((0.4, DataBurst(num_rows=8, relative=1.0)),),
    ((0.6, NotANumber()),),
)
"""Where a return to the start means nothing."""

KINDS: tuple[Kind, ...] = (
    Kind("speech synthesis", speech.synthesis, WITH_NORMS),
    Kind("speech CTC", speech.ctc, WITH_NORMS),
    Kind("speech sorted by length", speech.sorted_by_length),
    Kind("speech transducer", speech.transducer, every=100),
    Kind("segmentation", vision.segmentation, NEAR_ZERO[1:]),
    Kind("detection", vision.detection, every=20),
    Kind("radiance field", vision.radiance_field, every=10, doubtful=((395, 460), (795, 860))),
    Kind("contrastive", vision.contrastive, WITH_NORMS, doubtful=((595, 660), (1_095, 1_160))),
    Kind("federated", vision.federated),
    Kind("denoising", vision.denoising, WITH_NORMS, every=10),
    Kind("annealed autoencoder", generative.annealed_autoencoder, doubtful=((500, 1_000),)),
    Kind("adversarial generator", generative.adversarial_generator, NEAR_ZERO),
    Kind("critic", generative.critic, NEAR_ZERO),
    Kind("flow", generative.flow, WITH_NORMS),
    Kind("negative return", reinforcement.negative_return, NEAR_ZERO, every=50),
    Kind("temporal difference", reinforcement.temporal_difference, NEAR_ZERO),
    Kind("signed policy", reinforcement.signed_policy, NEAR_ZERO),
    Kind("value", reinforcement.value, NEAR_ZERO, every=2_048),
    Kind("preference", reinforcement.preference),
    Kind(
        "click rate", tabular.click_rate, (*USUAL_HARMS, ((0.7, SlowDivergence(relative=0.4)),)), doubtful=((395, 500),)
    ),
    Kind("graph, full batch", tabular.graph_full_batch),
    Kind("deterministic", tabular.deterministic),
    Kind("seasonal", tabular.seasonal),
    Kind("unscaled regression", tabular.unscaled_regression),
    Kind("tiny regression", tabular.tiny_regression, every=5),
    Kind("quantised", tabular.quantised, decimals=1),
    Kind("error rate", tabular.error_rate, (*NEAR_ZERO[1:], ((0.6, Zero()),))),
    Kind("count of errors", tabular.count_of_errors, NEAR_ZERO, decimals=0, every=10),
    Kind("warm restarts", schedules.warm_restarts),
    Kind("curriculum", schedules.curriculum, WITH_NORMS, doubtful=((595, 800), (1_195, 1_400), (1_795, 2_000))),
    Kind("running mean", schedules.running_mean, step_period=200),
    Kind("memorising", schedules.memorising, WITH_NORMS),
    Kind("short fine-tune", schedules.short_finetune, WITH_NORMS, every=10),
    Kind("two tasks", schedules.two_tasks),
    Kind("mixture", schedules.mixture, WITH_NORMS),
)


def runs() -> Iterator[LabelledRun]:
    for kind in KINDS:
        yield from kind.runs(SEED)
