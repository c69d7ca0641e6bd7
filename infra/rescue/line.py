"""What was heard of an arm, as lines that a person reads."""

from __future__ import annotations

from holter.schemas.control import Action, effect_name
from holter.schemas.decisions import Decision, Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import Ack, EffectReport


def line_of(record: object) -> str:
    """Empty for what is not worth one."""
    if isinstance(record, Signal) and record.phase != "update":
        return f"step {record.step}: signal {record.phase}: {record.explanation}"
    if isinstance(record, Decision):
        held = f", held: {record.held}" if record.held else ""
        return f"step {record.step}: decision {record.choice} ({record.mode}{held}): {record.reason}"
    if isinstance(record, Action):
        return f"action {' + '.join(effect_name(effect) for effect in record.effects)}"
    if isinstance(record, Ack):
        return f"step {record.step}: {record.status} {record.reason}{', '.join(map(_report, record.effects))}"
    if isinstance(record, Outcome):
        return f"step {record.step}: outcome {record.result}, {record.level_before:.3f} → {record.level_after:.3f}"
    return ""


def _report(effect: EffectReport) -> str:
    values = "" if effect.after is None else f" {effect.before} → {effect.after}"
    return f"{effect.effect}{values}"
