"""Watches every run of a prefix and treats those that allow it; the only job that may act.

Reads telemetry, commands and holds; the stages are windows, signals, decisions, in this order.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import msgspec

from holter.jobs.arguments import common_arguments, job_parser
from holter.jobs.deployments import open_watch
from holter.jobs.job import Job, execute
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET, policy_from_text
from holter.pipeline.core.detect.learned import LearnedModel
from holter.pipeline.core.detect.stack import DetectorSettings
from holter.pipeline.core.incidents import IncidentSettings
from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.core.run_operator import WATCH_OUTPUTS, WATCH_SOURCES
from holter.pipeline.core.signals import SignalSettings

WATCH = Job("watch", inputs=WATCH_SOURCES, outputs=WATCH_OUTPUTS)


def main() -> None:
    parser = job_parser("Watches every run of a prefix and treats those that allow it.")
    parser.add_argument("--keys-file", type=Path, required=True, help="key file, on the machines of the workers")
    parser.add_argument(
        "--issuer-epoch", type=int, required=True, help="number of this deployment; trainers refuse lower ones"
    )
    parser.add_argument(
        "--policy", type=_policy, default=DEFAULT_PRESET, metavar="NAME|JSON", help="default: %(default)s"
    )
    parser.add_argument(
        "--recovery-weights", type=_weights, default=RecoveryWeights(), metavar="JSON", help="default: the shipped ones"
    )
    parser.add_argument("--learned", type=learned_model, metavar="JSON", help="the learned detector; default: none")
    parsed = parser.parse_args()
    settings = SignalSettings(
        DetectorSettings(learned=parsed.learned), IncidentSettings(weights=parsed.recovery_weights)
    )
    restore = partial(open_watch, parsed.keys_file, parsed.issuer_epoch, parsed.policy, settings)
    execute(WATCH, common_arguments(parsed), restore)


def _policy(text: str) -> str:
    """Refuses here, before the job is submitted, what a worker would refuse later."""
    return policy_from_text(text).text()


def _weights(text: str) -> RecoveryWeights:
    return RecoveryWeights(**json.loads(text))


def learned_model(text: str) -> LearnedModel:
    """Raises:
    ValueError: the text is no model's JSON.
    """
    return msgspec.json.decode(text, type=LearnedModel)


if __name__ == "__main__":
    main()
