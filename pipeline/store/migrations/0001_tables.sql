-- One table a kind of record, each exact by the record's identity: the sort key is the identity, so that what was
-- delivered twice, or loaded again in other batches, is one row when read with FINAL. Nothing is partitioned by time:
-- a record that comes late must meet its twin.

CREATE TABLE IF NOT EXISTS {database}.raw_metrics
(
    project LowCardinality(String),
    run LowCardinality(String),
    metric LowCardinality(String),
    attempt Int64 CODEC(ZSTD(1)),
    rank Int32 CODEC(ZSTD(1)),
    split LowCardinality(String),
    step Int64 CODEC(DoubleDelta, ZSTD(1)),
    ts DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    value Float64 CODEC(Gorilla, ZSTD(1)),
    is_finite Bool MATERIALIZED isFinite(value),
    seq UInt64 CODEC(DoubleDelta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(seq)
-- More columns than a sort key should have: each is a part of the identity.
ORDER BY (project, run, metric, attempt, rank, split, step)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_steps
(
    project LowCardinality(String),
    run LowCardinality(String),
    attempt Int64 CODEC(ZSTD(1)),
    rank Int32 CODEC(ZSTD(1)),
    split LowCardinality(String),
    step Int64 CODEC(DoubleDelta, ZSTD(1)),
    ts DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    loss Nullable(Float64) CODEC(Gorilla, ZSTD(1)),
    grad_norm Nullable(Float64) CODEC(Gorilla, ZSTD(1)),
    update_norm Nullable(Float64) CODEC(Gorilla, ZSTD(1)),
    learning_rate Nullable(Float64) CODEC(Gorilla, ZSTD(1)),
    step_seconds Nullable(Float64) CODEC(Gorilla, ZSTD(1)),
    step_applied Bool,
    accumulation UInt32 CODEC(ZSTD(1)),
    loss_scope LowCardinality(String),
    grad_norm_scope LowCardinality(String),
    grad_norm_scaled Bool,
    update_norm_source LowCardinality(String),
    live Bool,
    seq UInt64 CODEC(DoubleDelta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (project, run, attempt, rank, split, step)
SETTINGS non_replicated_deduplication_window = 1000;

-- The last step of each rank, so that the state of all runs is known without reading their steps.
CREATE TABLE IF NOT EXISTS {database}.raw_last_steps
(
    project LowCardinality(String),
    run LowCardinality(String),
    attempt Int64,
    rank Int32,
    step Int64,
    ts DateTime64(3, 'UTC'),
    loss Nullable(Float64),
    version UInt64 MATERIALIZED toUInt64(step)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project, run, attempt, rank);

CREATE TABLE IF NOT EXISTS {database}.raw_attempts
(
    project LowCardinality(String),
    run LowCardinality(String),
    attempt Int64,
    parent_attempt Nullable(Int64),
    parent_step Nullable(Int64),
    ts DateTime64(3, 'UTC'),
    host String,
    num_ranks UInt32,
    config String CODEC(ZSTD(3)),
    versions String CODEC(ZSTD(3)),
    allow Array(LowCardinality(String)),
    is_started UInt8
)
ENGINE = ReplacingMergeTree(is_started)
ORDER BY (project, run, attempt);

CREATE TABLE IF NOT EXISTS {database}.raw_events
(
    project LowCardinality(String),
    run LowCardinality(String),
    attempt Int64,
    rank Int32,
    seq UInt64,
    session String,
    step Int64,
    ts DateTime64(3, 'UTC'),
    event LowCardinality(String),
    status LowCardinality(String),
    checkpoint String,
    body String CODEC(ZSTD(3)),
    live Bool
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (project, run, attempt, rank, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_acks
(
    project LowCardinality(String),
    run LowCardinality(String),
    attempt Int64,
    rank Int32,
    seq UInt64,
    session String,
    step Int64,
    ts DateTime64(3, 'UTC'),
    action String,
    action_attempt Int64,
    ordinal Int64,
    status LowCardinality(String),
    reason String,
    digest String,
    effects Array(LowCardinality(String)),
    before Array(Nullable(Float64)),
    after Array(Nullable(Float64)),
    details Array(String),
    latency_ms Nullable(Float64),
    live Bool
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (project, run, attempt, rank, seq)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS {database}.raw_windows
(
    project LowCardinality(String),
    run LowCardinality(String),
    metric LowCardinality(String),
    attempt Int64 CODEC(ZSTD(1)),
    rank Int32 CODEC(ZSTD(1)),
    first_step Int64 CODEC(DoubleDelta, ZSTD(1)),
    last_step Int64 CODEC(DoubleDelta, ZSTD(1)),
    ts DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    count UInt64,
    num_finite UInt64,
    sum Float64,
    mean Float64,
    sd Float64,
    min Float64,
    max Float64,
    ema Float64,
    slope Float64,
    median Float64,
    mad Float64,
    p05 Float64,
    p50 Float64,
    p95 Float64,
    p99 Float64,
    id String,
    seq UInt64 CODEC(DoubleDelta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (project, run, metric, attempt, rank, first_step)
SETTINGS non_replicated_deduplication_window = 1000;

-- What is derived has an id that every replay computes again; the version is the step and seq that caused it.
CREATE TABLE IF NOT EXISTS {database}.raw_signals
(
    project LowCardinality(String),
    run LowCardinality(String),
    id String,
    attempt Int64,
    rank Int32,
    step Int64,
    seq UInt64,
    ts DateTime64(3, 'UTC'),
    kind LowCardinality(String),
    severity LowCardinality(String),
    phase LowCardinality(String),
    incident String,
    state LowCardinality(String),
    onset_step Int64,
    metric LowCardinality(String),
    value Float64,
    baseline Float64,
    score Float64,
    threshold Float64,
    peak Float64,
    num_steps UInt64,
    evidence Array(Float64),
    p_recover Nullable(Float64),
    moved Map(String, Float64),
    explanation String,
    origin LowCardinality(String),
    live Bool,
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(step), 64) + seq
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project, run, id)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_decisions
(
    project LowCardinality(String),
    run LowCardinality(String),
    id String,
    attempt Int64,
    rank Int32,
    step Int64,
    seq UInt64,
    ts DateTime64(3, 'UTC'),
    incident String,
    policy LowCardinality(String),
    mode LowCardinality(String),
    choice LowCardinality(String),
    reason String,
    p_recover Nullable(Float64),
    action String,
    digest String,
    held String,
    option_names Array(String),
    option_costs Array(Nullable(Float64)),
    options String CODEC(ZSTD(3)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(step), 64) + seq
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project, run, id)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_outcomes
(
    project LowCardinality(String),
    run LowCardinality(String),
    id String,
    attempt Int64,
    rank Int32,
    step Int64,
    seq UInt64,
    ts DateTime64(3, 'UTC'),
    action String,
    incident String,
    result LowCardinality(String),
    level_before Float64,
    level_after Float64,
    num_steps UInt64,
    lost_steps UInt64,
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(step), 64) + seq
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project, run, id)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_actions
(
    project LowCardinality(String),
    run LowCardinality(String),
    id String,
    attempt Int64,
    ordinal Int64,
    incident String,
    effect_names Array(LowCardinality(String)),
    effects String,
    decided_ts DateTime64(3, 'UTC'),
    expires_ts DateTime64(3, 'UTC'),
    first_step Int64,
    last_step Int64,
    seq UInt64,
    issuer_epoch UInt64,
    reason String,
    key_id String
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (project, run, id)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS {database}.raw_health
(
    project LowCardinality(String),
    run LowCardinality(String),
    id String,
    attempt Int64,
    checkpoint String,
    step Int64,
    ts DateTime64(3, 'UTC'),
    seq UInt64,
    issuer_epoch UInt64,
    key_id String
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (project, run, id)
SETTINGS non_replicated_deduplication_window = 1000;

-- What people say has no id of its own: `id` is a hash of the signed body.
CREATE TABLE IF NOT EXISTS {database}.raw_commands
(
    project LowCardinality(String),
    run LowCardinality(String),
    id String,
    command LowCardinality(String),
    person String,
    ts DateTime64(3, 'UTC'),
    reason String,
    body String CODEC(ZSTD(3)),
    key_id String
)
ENGINE = ReplacingMergeTree(ts)
ORDER BY (project, run, id)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_dead_letters
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    ts DateTime64(3, 'UTC'),
    reason LowCardinality(String),
    detail String,
    reader LowCardinality(String),
    num_bytes UInt64,
    key String,
    value String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(ts)
ORDER BY (topic, reader, partition, offset)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS {database}.raw_loaded
(
    topic LowCardinality(String),
    partition Int32,
    next_offset Int64,
    ts DateTime64(3, 'UTC'),
    loaded_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(loaded_at)
ORDER BY (topic, partition);
