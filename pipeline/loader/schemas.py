"""The store's tables as Arrow schemas: what a batch for each of them looks like."""

from __future__ import annotations

import pyarrow as pa

NAME = pa.dictionary(pa.int32(), pa.string())
TIME = pa.timestamp("ms", tz="UTC")

_RUN = [("project", NAME), ("run", NAME)]
_CAUSE = [("attempt", pa.int64()), ("rank", pa.int32()), ("step", pa.int64()), ("seq", pa.uint64()), ("ts", TIME)]

METRICS = pa.schema(
    [
        *_RUN, ("metric", NAME), ("attempt", pa.int64()), ("rank", pa.int32()), ("split", NAME), ("step", pa.int64()),
        ("ts", TIME), ("value", pa.float64()), ("seq", pa.uint64()),
    ]
)  # fmt: skip
STEPS = pa.schema(
    [
        *_RUN, ("attempt", pa.int64()), ("rank", pa.int32()), ("split", NAME), ("step", pa.int64()), ("ts", TIME),
        ("loss", pa.float64()), ("grad_norm", pa.float64()), ("update_norm", pa.float64()),
        ("learning_rate", pa.float64()), ("step_seconds", pa.float64()), ("step_applied", pa.bool_()),
        ("accumulation", pa.uint32()), ("loss_scope", NAME), ("grad_norm_scope", NAME),
        ("grad_norm_scaled", pa.bool_()), ("update_norm_source", NAME), ("live", pa.bool_()), ("seq", pa.uint64()),
    ]
)  # fmt: skip
LAST_STEPS = pa.schema(
    [*_RUN, ("attempt", pa.int64()), ("rank", pa.int32()), ("step", pa.int64()), ("ts", TIME), ("loss", pa.float64())]
)
ATTEMPTS = pa.schema(
    [
        *_RUN, ("attempt", pa.int64()), ("parent_attempt", pa.int64()), ("parent_step", pa.int64()), ("ts", TIME),
        ("host", pa.string()), ("num_ranks", pa.uint32()), ("config", pa.string()), ("versions", pa.string()),
        ("allow", pa.list_(pa.string())), ("is_started", pa.uint8()),
    ]
)  # fmt: skip
EVENTS = pa.schema(
    [
        *_RUN, *_CAUSE, ("session", pa.string()), ("event", NAME), ("status", NAME), ("checkpoint", pa.string()),
        ("body", pa.string()), ("live", pa.bool_()),
    ]
)  # fmt: skip
ACKS = pa.schema(
    [
        *_RUN, *_CAUSE, ("session", pa.string()), ("action", pa.string()), ("action_attempt", pa.int64()),
        ("ordinal", pa.int64()), ("status", NAME), ("reason", pa.string()), ("digest", pa.string()),
        ("effects", pa.list_(pa.string())), ("before", pa.list_(pa.float64())), ("after", pa.list_(pa.float64())),
        ("details", pa.list_(pa.string())), ("latency_ms", pa.float64()), ("live", pa.bool_()),
    ]
)  # fmt: skip
_WINDOW_FLOATS = (
    "sum", "mean", "sd", "min", "max", "ema", "slope", "median", "mad", "p05", "p50", "p95", "p99", "baseline",
    "band_low", "band_high", "score",
)  # fmt: skip
WINDOWS = pa.schema(
    [
        *_RUN, ("metric", NAME), ("attempt", pa.int64()), ("rank", pa.int32()), ("first_step", pa.int64()),
        ("last_step", pa.int64()), ("ts", TIME), ("count", pa.uint64()), ("num_finite", pa.uint64()),
        *((name, pa.float64()) for name in _WINDOW_FLOATS), ("id", pa.string()), ("seq", pa.uint64()),
    ]
)  # fmt: skip
SIGNALS = pa.schema(
    [
        *_RUN, *_CAUSE, ("id", pa.string()), ("kind", NAME), ("severity", NAME), ("phase", NAME),
        ("incident", pa.string()), ("state", NAME), ("onset_step", pa.int64()), ("metric", NAME),
        ("value", pa.float64()), ("baseline", pa.float64()), ("score", pa.float64()), ("threshold", pa.float64()),
        ("peak", pa.float64()), ("num_steps", pa.uint64()), ("evidence", pa.list_(pa.float64())),
        ("p_recover", pa.float64()), ("moved", pa.map_(pa.string(), pa.float64())), ("explanation", pa.string()),
        ("origin", NAME), ("live", pa.bool_()), ("features", pa.map_(pa.string(), pa.float64())),
        ("band_low", pa.float64()), ("band_high", pa.float64()),
    ]
)  # fmt: skip
DECISIONS = pa.schema(
    [
        *_RUN, *_CAUSE, ("id", pa.string()), ("incident", pa.string()), ("policy", NAME), ("mode", NAME),
        ("choice", NAME), ("reason", pa.string()), ("p_recover", pa.float64()), ("action", pa.string()),
        ("digest", pa.string()), ("held", pa.string()), ("option_names", pa.list_(pa.string())),
        ("option_costs", pa.list_(pa.float64())), ("options", pa.string()), ("person", pa.string()),
        ("answers", pa.string()), ("answer", NAME),
    ]
)  # fmt: skip
OUTCOMES = pa.schema(
    [
        *_RUN, *_CAUSE, ("id", pa.string()), ("action", pa.string()), ("incident", pa.string()), ("result", NAME),
        ("level_before", pa.float64()), ("level_after", pa.float64()), ("num_steps", pa.uint64()),
        ("lost_steps", pa.uint64()),
    ]
)  # fmt: skip
ACTIONS = pa.schema(
    [
        *_RUN, ("id", pa.string()), ("attempt", pa.int64()), ("ordinal", pa.int64()), ("incident", pa.string()),
        ("effect_names", pa.list_(pa.string())), ("effects", pa.string()), ("decided_ts", TIME), ("expires_ts", TIME),
        ("first_step", pa.int64()), ("last_step", pa.int64()), ("seq", pa.uint64()), ("issuer_epoch", pa.uint64()),
        ("reason", pa.string()), ("key_id", pa.string()), ("authority", NAME),
    ]
)  # fmt: skip
HEALTH = pa.schema(
    [
        *_RUN, ("id", pa.string()), ("attempt", pa.int64()), ("checkpoint", pa.string()), ("step", pa.int64()),
        ("ts", TIME), ("seq", pa.uint64()), ("issuer_epoch", pa.uint64()), ("key_id", pa.string()),
    ]
)  # fmt: skip
COMMANDS = pa.schema(
    [
        *_RUN, ("id", pa.string()), ("command", NAME), ("person", pa.string()), ("ts", TIME),
        ("reason", pa.string()), ("body", pa.string()), ("key_id", pa.string()),
    ]
)  # fmt: skip
DEAD_LETTERS = pa.schema(
    [
        ("topic", NAME), ("partition", pa.int32()), ("offset", pa.int64()), ("ts", TIME), ("reason", NAME),
        ("detail", pa.string()), ("reader", NAME), ("num_bytes", pa.uint64()), ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)  # fmt: skip
LOADED = pa.schema([("topic", NAME), ("partition", pa.int32()), ("next_offset", pa.int64()), ("ts", TIME)])

SCHEMAS: dict[str, pa.Schema] = {
    "raw_metrics": METRICS,
    "raw_steps": STEPS,
    "raw_last_steps": LAST_STEPS,
    "raw_attempts": ATTEMPTS,
    "raw_events": EVENTS,
    "raw_acks": ACKS,
    "raw_windows": WINDOWS,
    "raw_signals": SIGNALS,
    "raw_decisions": DECISIONS,
    "raw_outcomes": OUTCOMES,
    "raw_actions": ACTIONS,
    "raw_health": HEALTH,
    "raw_commands": COMMANDS,
    "raw_dead_letters": DEAD_LETTERS,
    "raw_loaded": LOADED,
}
"""By table, in the order in which a batch is inserted: what says how far it is loaded comes last."""
