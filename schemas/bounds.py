"""The bounded types that records are made of. Everything a stranger can send has a limit here."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

MAX_RECORD_BYTES = 256 * 1024
MAX_STEPS = 512
MAX_COLUMNS = 1024
MAX_KEY_BYTES = 200
MAX_INT = 2**53  # exact in float64, in JSON and in ClickHouse's Int64

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Millis = Annotated[int, Meta(ge=0, le=MAX_INT)]
"""Milliseconds since 1970, UTC."""
Step = Annotated[int, Meta(ge=0, le=MAX_INT)]
Attempt = Annotated[int, Meta(ge=0, le=MAX_INT)]
Rank = Annotated[int, Meta(ge=-1, le=2**20)]
"""A rank of the job; -1 is a value already reduced over all ranks."""
Ordinal = Annotated[int, Meta(ge=1, le=MAX_INT)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]

Name = Annotated[str, Meta(min_length=1, max_length=100)]
"""Part of a key, without ``/``: :func:`~holter.schemas.topics.check_key` sees to it. A pattern here would cost more
than the rest of a record's decoding."""
Short = Annotated[str, Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=2000)]
Id = Annotated[str, Meta(min_length=1, max_length=64)]
Metric = Annotated[str, Meta(min_length=1, max_length=128)]
Digest = Annotated[str, Meta(max_length=64)]
Scalar = str | int | float | bool | None

Split = Literal["train", "eval"]
Scope = Literal["rank", "global", "shard"]
UpdateNormSource = Literal["none", "sampled", "full"]
Tier = Literal["disk", "memory"]
Phase = Literal["warmup", "train", "eval", "checkpoint", "resume", "idle"]
EffectName = Literal[
    "lr_factor",
    "momentum_reset",
    "rollback",
    "skip_range",
    "clip_adjust",
    "rebuild_stage",
    "stop",
    "checkpoint_now",
    "nan_guard",
]
Autonomy = Literal["shadow", "approve", "auto"]
SignalKind = Literal[
    "loss_spike",
    "grad_explosion",
    "update_explosion",
    "nan",
    "divergence",
    "level_shift",
    "plateau",
    "learned",
    "collapse",
    "loss_scale",
    "stuck",
    "silent",
    "hang",
    "conflict",
    "blind",
]
Severity = Literal["info", "warning", "critical"]
IncidentState = Literal[
    "spike", "exploding", "diverging", "stuck", "recovering", "recovered", "recovered_higher", "rolled_back", "lost"
]
AckStatus = Literal["applied", "refused", "interrupted", "expired"]
