"""Records of every kind with every field set, and the bytes they had when they were first released.

``python -m tests.schemas.examples`` writes the files of records that have none yet; it never changes one.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

import holter.schemas
from holter.schemas import Key, encode
from holter.schemas.commands import Act, Approve, Hold, Policy, Prior, Reject, Release
from holter.schemas.control import (
    Action,
    CheckpointNow,
    ClipAdjust,
    Health,
    LrFactor,
    MomentumReset,
    RebuildStage,
    Rollback,
    SkipRange,
    Stop,
)
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.decisions import Decision, Option, Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import (
    Ack,
    BadGradient,
    BatchSizeChanged,
    CheckpointQuarantined,
    CheckpointSaved,
    CheckpointVerified,
    DataPhase,
    EffectReport,
    Evaluated,
    Event,
    Finished,
    Heartbeat,
    LearningRateChanged,
    MetricBatch,
    Parent,
    Resumed,
    RunEvent,
    SparseColumn,
    Started,
    pack_floats,
    pack_ints,
    pack_offsets,
)
from holter.schemas.topics import COMMANDS, CONTROL, DECISIONS, DLQ, HOLDS, SIGNALS, TELEMETRY, WINDOWS, Topic
from holter.schemas.windows import WindowStat

FOLDER = Path(holter.schemas.__file__).parent / "examples"
TS = 1_764_460_000_000
_WHO = ("gpt-small", "lr-3e-4")
_RANKED = (*_WHO, TS, 0, "9f3c")

_EVENTS: dict[str, Event] = {
    "start": Started(
        config={"model.width": 64, "optim.lr": 2e-3, "compile": False, "note": None, "name": "gpt"},
        versions={"torch": "2.13.0"},
        host="node-1",
        num_ranks=8,
        parent=Parent(TS - 1, 349),
        measures=["train/loss"],
        effects=["lr_factor", "rollback", "skip_range"],
        allow=["rollback", "skip_range"],
        autonomy={"rollback": "approve"},
        checkpoint_every_steps=50,
    ),
    "finish": Finished("failed", "out of memory"),
    "resume": Resumed("step-349"),
    "lr_change": LearningRateChanged(1e-3, 5e-4),
    "batch_size_change": BatchSizeChanged(32, 64),
    "data_phase": DataPhase("epoch 2"),
    "eval": Evaluated({"eval/loss": 2.25, "eval/accuracy": math.nan}),
    "checkpoint_saved": CheckpointSaved("step-349", 0.25, 1_000_000, "ab" * 32),
    "checkpoint_verified": CheckpointVerified("step-349", 0.5),
    "checkpoint_quarantined": CheckpointQuarantined("step-349", "SHA-256 differs"),
    "bad_gradient": BadGradient("grad_explosion", "train/grad_norm", 150.0, 1.5, 100.0, 3.0, 2, True),
    "heartbeat": Heartbeat("train"),
}

RECORDS: dict[str, tuple[Topic, msgspec.Struct]] = {
    "metric_batch": (
        TELEMETRY,
        MetricBatch(
            *_RANKED, 17, pack_ints(5, 6, 9), pack_ints(TS, TS + 50, TS + 100),
            {
                "train/loss": pack_floats(2.5, math.nan, math.inf),
                "eval/x": SparseColumn(pack_offsets(0, 2), pack_floats(1.0, -math.inf)),
            },
            applied=b"\x01\x00\x01", split="eval", loss_scope="global", grad_norm_scope="shard", grad_norm_scaled=True,
            accumulation=4, update_norm_source="sampled", live=False,
        ),
    ),
    "ack": (
        TELEMETRY,
        Ack(*_RANKED, 18, 120, TS, "a" * 32, TS - 1, 2, "applied", "because", "d" * 32,
            [EffectReport("rollback", 119.0, 99.0, "step-99")], 12.5, False),
    ),
    "window_stat": (
        WINDOWS,
        WindowStat("w" * 32, *_WHO, TS, 0, "train/loss", 100, 199, 42, TS, 100, 99, 250.0, 2.5, 0.1, 2.0, 3.0, 2.4,
                   -0.001, 2.5, 0.05, 2.1, 2.5, 2.9, math.nan),
    ),
    "signal": (
        SIGNALS,
        Signal("s" * 32, *_WHO, TS, 0, 120, 42, TS, "loss_spike", "warning", "open", "i" * 32, "spike", 118,
               "train/loss", 4.0, 2.5, 12.0, 6.0, 4.5, 2, [2.5, 4.5, 4.0], 0.75, {"base": 2.2}, "why", "worker", False),
    ),
    "window_stat.band": (
        WINDOWS,
        WindowStat("w" * 32, *_WHO, TS, 0, "train/loss", 200, 299, 43, TS, 100, 100, 250.0, 2.5, 0.1, 2.0, 3.0, 2.4,
                   -0.001, 2.5, 0.05, 2.1, 2.5, 2.9, 2.95, 2.55, 2.25, 2.85, 4.5),
    ),
    "signal.features": (
        SIGNALS,
        Signal("t" * 32, *_WHO, TS, 0, 121, 43, TS, "loss_spike", "warning", "update", "i" * 32, "spike", 118,
               "train/loss", 4.0, 2.5, 12.0, 6.0, 4.5, 3, [2.5, 4.5, 4.0], 0.75, {"base": 2.2}, "why", "worker", False,
               {"given_back": 0.25, "log_grad": math.nan}, 2.2, 2.8),
    ),
    "signal.notice": (
        SIGNALS,
        Signal("n" * 32, *_WHO, TS, 0, 180, 44, TS, "level_shift", "info", "close", "n" * 32, "recovered_higher", 130,
               "train/loss", 2.9, 2.5, 8.0, 3.0, 2.9, 50, [2.9, 2.8], None, {}, "it left its level"),
    ),
    "decision": (
        DECISIONS,
        Decision("e" * 32, *_WHO, TS, 0, 120, 42, TS, "i" * 32, "cautious", "auto",
                 [Option("monitor"), Option("rollback", ["rollback", "skip_range"], 12.5, False, "none is healthy")],
                 "rollback", "P(recover) 0.1 is below 0.5", 0.1, "a" * 32, "d" * 32, "cooldown"),
    ),
    "decision.answer": (
        DECISIONS,
        Decision("f" * 32, *_WHO, TS, 0, 120, 42, TS, "i" * 32, "cautious", "approve", [Option("approve")], "approve",
                 "ada approved it", None, "a" * 32, "d" * 32, "the run is on hold", "ada", "e" * 32, "refused"),
    ),
    "outcome": (
        DECISIONS, Outcome("o" * 32, *_WHO, TS, 0, 170, 42, TS, "a" * 32, "i" * 32, "recovered", 4.0, 2.5, 50, 21)
    ),
    "action": (
        CONTROL,
        Action("a" * 32, *_WHO, TS, 3, "i" * 32,
               [Rollback("step-99", 99), SkipRange(118), LrFactor(0.5), MomentumReset(), ClipAdjust(0.5),
                RebuildStage(2), Stop(), CheckpointNow()],
               TS, TS + 60_000, 120, 1120, 42, 7, "why"),
    ),
    "action.ordered": (
        CONTROL,
        Action("b" * 32, *_WHO, TS, 4, "i" * 32, [LrFactor(0.5, 200), ClipAdjust(0.25, 100)],
               TS, TS + 60_000, 120, 1120, 42, 7, "why", "person"),
    ),
    "health": (CONTROL, Health("h" * 32, *_WHO, TS, "step-99", 99, TS, 42, 7)),
    "approve": (COMMANDS, Approve(*_WHO, "e" * 32, "d" * 32, "ada", TS, "go")),
    "reject": (COMMANDS, Reject(*_WHO, "e" * 32, "ada", TS, "no")),
    "act": (COMMANDS, Act(*_WHO, [LrFactor(0.5)], "ada", TS, "too hot")),
    "policy": (COMMANDS, Policy(*_WHO, "ada", TS, "patient", {"rollback": "approve"}, {"cooldown": 100.0}, "night")),
    "policy.priors": (
        COMMANDS,
        Policy(*_WHO, "ada", TS, "expected-cost", {}, {"safety.cooldown_steps": 80.0}, "tuned",
               {"loss_spike/rollback": Prior(12.0, 11.0)}),
    ),
    "hold": (HOLDS, Hold(*_WHO, "ada", TS, "debugging")),
    "release": (HOLDS, Release(*_WHO, "ada", TS, "done")),
    "dead_letter": (
        DLQ, DeadLetter("holter-telemetry", 1, 42, TS, "malformed", "no", "watch", 3, b"gpt-small/x", b"\xc1\x00\xff")
    ),
    **{
        f"run_event.{name}": (TELEMETRY, RunEvent(*_RANKED, 3, 120, TS, event, live=False))
        for name, event in _EVENTS.items()
    },
}  # fmt: skip

KEY = Key("issuer-1", "issuer", bytes(range(32)))
SIGNED = FOLDER / "signed" / "v1" / "health.msgpack"


def path(name: str) -> Path:
    """Where the bytes of an example lie: by kind and version."""
    kind, _, variant = name.partition(".")
    return FOLDER / kind / "v1" / f"{variant or 'full'}.msgpack"


def main() -> None:
    bodies = {path(name): encode(record) for name, (_, record) in RECORDS.items()}
    bodies[SIGNED] = KEY.sign(encode(RECORDS["health"][1]))
    for file, body in bodies.items():
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)


if __name__ == "__main__":
    main()
